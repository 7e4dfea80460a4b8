package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/internal/platform/systemd"
	"github.com/netcraq/netcraq/wire"
)

// DefaultAnswerKiB is how much of long answers a node sends to one address in a second, in KiB: 24,000 of the longest.
const DefaultAnswerKiB = 32 << 10

// DefaultSessionShare is the part of a node's session entries that one client address may hold, in percent.
const DefaultSessionShare = 75

// wholeShare is no limit, in percent.
const wholeShare = 100

// clientSessions is a share of session entries as a number; 0: no limit.
func clientSessions(sessions, share int) int {
	if share == wholeShare {
		return 0
	}
	return max(1, sessions*share/wholeShare)
}

// DefaultChainOptions returns the default size of a node: room for 100,000 objects of the longest values, and for the
// sessions of 10,000 writers of one address that write in 256 shards each.
func DefaultChainOptions(shards int) chain.Options {
	const sessions = 1 << 22
	return chain.Options{Shards: shards, CellBytes: wire.MaxValueBytes, MaxObjects: 100_000, MaxSessions: sessions,
		ClientSessions: clientSessions(sessions, DefaultSessionShare), AnswerRate: DefaultAnswerKiB << 10}
}

// nodeFlags are the command line of `netcraq node`.
type nodeFlags struct {
	name, cluster, addr, api string
	metrics                  string
	identity                 string
	priority                 scheduling.Class
	plane                    PlaneRequest
	join                     joinFlags
	remove, verbose          bool
	logFormat                cli.LogFormat
	acceptDataLoss           bool
	answerKiB                int // a second of long answers to one address
	podDir                   string
	sessionShare             int
	sessions                 *pflag.Flag // maximum number
}

func newNodeCommand() *cobra.Command {
	flags := nodeFlags{plane: PlaneRequest{Chain: DefaultChainOptions(1)}}
	c := &cobra.Command{
		Use:   "node",
		Short: "Run a node: a data plane and its agent",
		Long: `Run a node: a data plane and its agent.

With --cluster the node takes its address and its chains from the cluster file. With --join it gets its chains
from controllers. Without either it needs --addr and gets its chains through the agent's API.

The xdp data plane is in the kernel. It keeps answering when this command ends, and the next start takes it over
without losing a packet; --remove ends it. In a cluster that controllers run, SIGTERM ends this command when no
change of chains needs it, within 2 s; controllers remove a node from its chains when orders have waited 2 s for
its next agent. To stop a node without an interruption, drain it first.`,
		Example: `  netcraq node --name n1 --cluster cluster.yaml
  netcraq node --name n1 --addr 192.0.2.1:4411 --join 192.0.2.7,192.0.2.8,192.0.2.9 --labels zone=a
  netcraq node --name n1 --cluster cluster.yaml --plane xdp --port-if eth0
  netcraq node --name n1 --remove`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runNode(c.Context(), c.ErrOrStderr(), &flags) },
	}
	f, size := c.Flags(), &flags.plane.Chain
	f.StringVar(&flags.name, "name", "", "the node's name in the cluster")
	f.StringVar(&flags.cluster, "cluster", "", "cluster file")
	f.StringVar(&flags.addr, "addr", "", "IPv4 address and UDP port of the data plane (default: from the cluster file)")
	f.StringVar(&flags.api, "api", "",
		fmt.Sprintf("TCP address of the agent (default: from the cluster file, or port %d of the node's address)",
			topology.APIPort))
	f.StringVar(&flags.plane.kind, "plane", cli.PlaneAuto, "data plane: auto, soft, xdp or p4 (a software switch)")
	f.StringArrayVar(&flags.plane.ports, "port-if", nil,
		"xdp, p4: network interface to answer on; may be repeated (default: all Ethernet interfaces that are up, except parts "+
			"of a bridge or bond; xdp follows them as they come and go)")
	f.StringVar(&flags.plane.pin, "pin", "",
		"xdp: directory on the BPF file system where the data plane is pinned (default: "+xdp.DefaultPin("NAME")+")")
	f.StringVar(&flags.plane.mode, "mode", string(xdp.Auto),
		"xdp: native (in the driver), generic (any driver, slower), or auto: native if the driver can")
	f.Func("transit", "xdp: `networks` of nodes, such as 192.0.2.0/24, whose messages this node routes, past the kernel's "+
		"packet filters, where it stands between them (default: leave them to the kernel)", flags.plane.addTransit)
	flags.addPods(f)
	flags.plane.addSwitch(f)
	f.IntVar(&size.Shards, "shards", size.Shards, "number of shards, without a cluster file")
	f.IntVar(&size.MaxObjects, "objects", size.MaxObjects, "maximum number of objects")
	flags.addSessions(f)
	f.IntVar(&size.CellBytes, "cell-bytes", size.CellBytes, "maximum length of a value in bytes")
	f.IntVar(&size.ClientRate, "client-rate", 0, "maximum messages per second from one client; 0: no limit")
	f.IntVar(&flags.answerKiB, "answer-kib-s", DefaultAnswerKiB, fmt.Sprintf(
		"maximum KiB per second of answers longer than %d bytes to one address, which may be forged; 0: no limit",
		wire.FreeAnswerBytes))
	f.BoolVar(&size.Relay, "relay", false,
		"as a tail, send ACKs up the chain node by node: for networks or drivers that cannot clone packets")
	f.Func("without", "switch off a rule of the protocol, to prove that tests detect it: W2, W5, W8 or R4",
		func(name string) error {
			rule, err := chain.ParseRule(name)
			size.Without |= rule
			return err
		})
	if err := f.MarkHidden("without"); err != nil {
		panic(err) // the flag was defined just above
	}
	flags.join.add(f)
	cli.PriorityFlag(f, &flags.priority)
	f.StringVar(&flags.identity, "identity", "",
		"directory of this node's certificate, as netcraq certs makes it (default: no encryption)")
	f.BoolVar(&flags.remove, "remove", false,
		"xdp: end the data plane that an earlier command left running, and delete its data")
	f.BoolVar(&flags.acceptDataLoss, "accept-data-loss", false,
		"with a cluster file: serve without state although nodes of the same chains do not answer, and may store writes")
	flags.addLog(f)
	return c
}

// addLog adds the flags of what the node reports.
func (flags *nodeFlags) addLog(f *pflag.FlagSet) {
	f.StringVar(&flags.metrics, "metrics", "", "TCP address to serve metrics for Prometheus on (default: none)")
	flags.logFormat.Add(f)
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "log more")
}

func runNode(ctx context.Context, stderr io.Writer, flags *nodeFlags) error {
	log := cli.NewLog(stderr, flags.verbose, flags.logFormat)
	if flags.plane.pin == "" && flags.name != "" {
		flags.plane.pin = xdp.DefaultPin(flags.name)
	}
	switch {
	case flags.remove && flags.plane.pin == "":
		return cli.UsageError(errors.New("the name of the node is missing: give --name, or --pin"))
	case flags.remove:
		return removePlane(log, flags.plane.pin)
	case flags.name == "":
		return cli.UsageError(errors.New("the name of the node is missing: give --name"))
	}
	if err := flags.check(); err != nil {
		return err
	}
	options, err := flags.resolve()
	if err != nil {
		return err
	}
	identity, err := cli.LoadIdentity(flags.identity)
	if err != nil {
		return err
	}
	options.ServerOptions, options.DialOptions = identity.ServerOptions(log), []grpc.DialOption{identity.DialOption()}
	if err := flags.enlist(ctx, log, &options, identity.DialOption()); err != nil {
		if ctx.Err() != nil { // ended while it waited for a controller
			return nil
		}
		return err
	}
	pods, err := flags.listenPods(log)
	if err != nil {
		return err
	}
	adopted := xdp.Pinned(flags.plane.pin)
	plane, release, err := flags.open(log, identity)
	if err != nil {
		return errors.Join(err, pods.close())
	}
	defer func() { _ = pods.close() }()
	defer func() { _ = release() }()
	info := plane.Info()
	options.Plane, options.Log = plane, log
	cli.WarnOpen(log, identity != nil, info.Options.Tags != wire.TagsOff)
	cli.WarnVolatile(log)
	if options.Join != nil {
		flags.prepareMember(log, plane, options.Join)
	}
	var a *agent.Agent
	options.Up = systemd.Supervise(ctx, log, func() error { return a.Alive() })
	a, err = agent.New(options)
	if err != nil {
		err = errors.Join(err, plane.Close())
		if info.Plane == cli.PlaneXDP && !adopted { // a node that did not start leaves nothing in the kernel
			err = errors.Join(err, release(), removePlane(log, flags.plane.pin))
		}
		return err
	}
	err = serveNode(ctx, a, plane, pods, log.With("node", flags.name))
	var lost *agent.StateLostError
	if info.Plane == cli.PlaneXDP && (!a.Configured() || errors.As(err, &lost)) { // what it has is of no use, and must not answer
		return errors.Join(err, release(), removePlane(log, flags.plane.pin))
	}
	if err != nil {
		return err
	}
	logEnd(log, flags, info.Plane)
	return nil
}

// prepareMember prepares a node of a cluster that controllers run, once its plane is open: loading programs takes long
// and needs no priority.
func (flags *nodeFlags) prepareMember(log *slog.Logger, plane dataplane.Plane, join *agent.Join) {
	switch err := scheduling.Raise(flags.priority); {
	case errors.Is(err, scheduling.ErrNotRealTime):
		log.Info("heartbeats may be late on a busy machine", "node", flags.name, "because", err)
	case err != nil:
		log.Debug("heartbeats may be late on a busy machine: this process may not raise its priority", "node",
			flags.name, "because", err)
	}
	if keeper, ok := plane.(*xdp.Plane); ok {
		join.Remember = keeper.Remember
	}
}

// addSessions adds the flags of the table of sessions.
func (flags *nodeFlags) addSessions(f *pflag.FlagSet) {
	size := &flags.plane.Chain
	f.IntVar(&size.MaxSessions, "sessions", size.MaxSessions, "maximum number of session entries: one for each session and shard")
	flags.sessions = f.Lookup("sessions")
	f.IntVar(&flags.sessionShare, "session-share", DefaultSessionShare,
		"maximum part of --sessions that one client address may hold, in percent; 100: no limit")
}

// keepSessions gives the node as many session entries as the data plane has that it takes over, which may be the default
// of another version, unless the command line has a number.
func (flags *nodeFlags) keepSessions(entries int) {
	if size := &flags.plane.Chain; entries > 0 && !flags.sessions.Changed {
		size.MaxSessions, size.ClientSessions = entries, clientSessions(entries, flags.sessionShare)
	}
}

// limit sets the limits of single addresses.
func (flags *nodeFlags) limit() error {
	size := &flags.plane.Chain
	if flags.sessionShare < 1 || flags.sessionShare > wholeShare {
		return fmt.Errorf("--session-share is 1 to %d percent, not %d", wholeShare, flags.sessionShare)
	}
	size.ClientSessions = clientSessions(size.MaxSessions, flags.sessionShare)
	size.AnswerRate = flags.answerKiB << 10
	return nil
}

// serveNode serves a node until ctx ends, then closes this process's part of the plane.
func serveNode(ctx context.Context, a *agent.Agent, plane dataplane.Plane, pods podServer, log *slog.Logger) error {
	watched, stop := context.WithCancel(context.WithoutCancel(ctx)) // the agent may serve a little longer than ctx
	var watching sync.WaitGroup
	serving, end := context.WithCancelCause(ctx)
	defer end(nil)
	if kernel, ok := plane.(*xdp.Plane); ok {
		watching.Go(func() { kernel.WatchPorts(watched, log) })
		watching.Go(func() { kernel.FollowLinks(watched, log) })
		watching.Go(func() {
			if err := pods.serve(watched, kernel); err != nil {
				end(err)
			}
		})
	}
	if sw, ok := plane.(*p4.Plane); ok { // a node whose switch ended has lost its objects and must leave its chains
		watching.Go(func() {
			select {
			case <-watched.Done():
			case <-sw.Gone():
				end(sw.Err())
			}
		})
	}
	err := a.Serve(serving)
	if ctx.Err() == nil && serving.Err() != nil {
		err = errors.Join(context.Cause(serving), err)
	}
	stop()
	watching.Wait()
	return errors.Join(err, plane.Close())
}

// open opens the plane and locks it for this process until release is called.
func (flags *nodeFlags) open(
	log *slog.Logger, identity *security.Identity,
) (plane dataplane.Plane, release func() error, err error) {
	flags.plane.identity = identity
	release = func() error { return nil }
	adopted := xdp.Pinned(flags.plane.pin)
	if adopted { // lock before any change
		if release, err = xdp.Lock(flags.plane.pin); err != nil {
			return nil, nil, err
		}
		entries, err := xdp.PinnedSessions(flags.plane.pin)
		if err != nil {
			return nil, nil, errors.Join(err, release())
		}
		flags.keepSessions(entries)
	}
	plane, why, err := openPlane(flags.plane)
	if err != nil {
		return nil, nil, errors.Join(err, release())
	}
	info := plane.Info()
	log.Info("data plane is open", "node", flags.name, "plane", info.Plane, "because", why)
	if info.Plane != cli.PlaneXDP {
		return plane, release, nil
	}
	if !adopted {
		if release, err = xdp.Lock(flags.plane.pin); err != nil {
			return nil, nil, errors.Join(err, plane.Close())
		}
	}
	if PrivatePins(flags.plane.pin) {
		log.Warn("the data plane ends with the last process that can see its pins, such as this command: they are in a private "+
			"mount namespace, as `ip netns exec` makes one; to let the data plane outlive its agent, enter the network namespace "+
			"with `nsenter --net=/run/netns/NAME` instead",
			"node", flags.name, "pin", flags.plane.pin)
	}
	return plane, release, nil
}

// enlist prepares a node that joins a cluster. A data plane that is already in a cluster cannot join another one.
func (flags *nodeFlags) enlist(ctx context.Context, log *slog.Logger, options *agent.Options,
	dial grpc.DialOption) (err error) {
	if len(flags.join.controllers) == 0 {
		kept, err := recall(flags.plane.pin)
		if err == nil && kept != nil {
			return fmt.Errorf(
				"the data plane pinned at %s belongs to cluster %s: give --join with its controllers, or remove it with "+
					"`netcraq node --remove --pin %s`", flags.plane.pin, kept.Cluster, flags.plane.pin)
		}
		return err
	}
	flags.warnElsewhere(log, options.API)
	if options.Join, err = flags.join.resolve(ctx, log, flags, options.API, dial); err != nil {
		return err
	}
	flags.plane.Chain.Shards, flags.plane.Chain.CellBytes = options.Join.Identity.Shards, options.Join.Identity.CellBytes
	flags.plane.Chain.Tags = options.Join.Identity.Tags
	return nil
}

// resolve completes the flags from the cluster file.
func (flags *nodeFlags) resolve() (agent.Options, error) {
	options := agent.Options{Name: flags.name, API: flags.api, Metrics: flags.metrics, AcceptDataLoss: flags.acceptDataLoss}
	if flags.addr != "" {
		addr, err := netip.ParseAddrPort(flags.addr)
		if err != nil || !addr.Addr().Is4() {
			return options, cli.UsageError(fmt.Errorf("--addr %q is not an IPv4 address and port, such as 192.0.2.1:%d", flags.addr,
				wire.Port))
		}
		flags.plane.Addr = addr
	}
	if flags.cluster != "" {
		cluster, err := topology.Load(flags.cluster)
		if err != nil {
			return options, fmt.Errorf("--cluster: %w", err)
		}
		node, ok := cluster.Node(flags.name)
		if !ok {
			return options, fmt.Errorf("%s has no node %q", flags.cluster, flags.name)
		}
		if flags.addr == "" {
			flags.plane.Addr = node.Addr
		}
		if options.API == "" {
			options.API = node.APIAddr()
		}
		flags.plane.Chain.Shards = cluster.Shards
		options.Cluster = cluster
	}
	if !flags.plane.Addr.IsValid() {
		return options, cli.UsageError(errors.New("the address of the node is missing: give --cluster, or --addr"))
	}
	if options.API == "" {
		options.API = topology.DefaultAPI(flags.plane.Addr)
	}
	return options, nil
}

// logEnd logs the state that the node leaves behind.
func logEnd(log *slog.Logger, flags *nodeFlags, plane string) {
	switch {
	case plane == cli.PlaneXDP && PrivatePins(flags.plane.pin):
		log.Warn("agent stopped; the data plane ends too, unless another process can see its pins", "node", flags.name,
			"pin", flags.plane.pin)
		return
	case plane == cli.PlaneXDP:
		log.Info("agent stopped; the data plane in the kernel keeps answering", "node", flags.name,
			"to_remove", "netcraq node --remove --pin "+flags.plane.pin)
		return
	}
	log.Info("node stopped", "node", flags.name)
}
