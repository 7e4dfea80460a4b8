package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/cli"
	clinode "github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/verify/lab"
	"github.com/netcraq/netcraq/wire"
)

// upFlags are the flags of `netcraq up`.
type upFlags struct {
	plane, name   string
	nodes, shards int
	verbose       bool
	etcd, gateway bool
	keyspace      bool
	memory        bool
	etcdListen    string
	dataDir       string // of the keyspace
}

const endsBy = "\nCtrl-C ends it and leaves nothing behind.\n"

func newUpCommand() *cobra.Command {
	var flags upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: cli.ShortOf("up"),
		Long: `Start a chain on this machine and keep it until Ctrl-C.

As root the nodes are XDP programs in a lab, which is a network of hosts made of network namespaces. With --plane p4
they are P4 programs on software switches in the lab. Otherwise they are sockets on loopback addresses. In all cases
commands such as netcraq put and netcraq get find the chain.

Three APIs serve the chain:

  the client             programs in Go, C and Python that need microseconds: netcraq get, package client
  --memory, --keyspace   every language's etcd client, without an etcd: presence with leases, watches, locks, configuration
  --etcd, --gateway      users of an etcd, which stays on its disks, and whose reads the chain answers

--memory starts a gateway of a keyspace in the nodes' memory. --keyspace starts three gateways that serve etcd's API: the
chain orders the writes, and each gateway has a disk. --etcd starts an etcd with one member, as netcraq etcd does: all
linearizable reads are answered through the chain. --gateway starts an ordinary etcd with a gateway in front of it: the
chain answers reads of keys that are read often. All data is removed when the command ends, except that of a keyspace with
--data-dir.`,
		Example: `  netcraq up
  netcraq up --plane soft --nodes 4
  netcraq up --memory
  netcraq up --etcd
  netcraq up --plane soft --keyspace --data-dir keyspace`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			stdout, stderr := c.OutOrStdout(), c.ErrOrStderr()
			if err := checkEtcdListen(&flags); err != nil {
				return err
			}
			return runUp(c.Context(), stdout, stderr, flags)
		},
	}
	f := c.Flags()
	f.StringVar(&flags.plane, "plane", cli.PlaneAuto, "data plane: auto, soft, xdp or p4")
	f.StringVar(&flags.name, "name", defaultLab, "xdp: name of the lab")
	f.IntVar(&flags.nodes, "nodes", 3, "number of nodes in the chain")
	f.IntVar(&flags.shards, "shards", 1, "number of shards, a power of two")
	f.BoolVar(&flags.etcd, "etcd", false, "also start an etcd that reads through the chain")
	f.BoolVar(&flags.gateway, "gateway", false, "also start an etcd behind a gateway")
	f.BoolVar(&flags.memory, "memory", false, "also serve etcd's API from the chain's memory, without an etcd")
	f.BoolVar(&flags.keyspace, "keyspace", false, "also start a keyspace on disks, with etcd's API")
	f.StringVar(&flags.dataDir, "data-dir", "", "directory of --keyspace, which finds its data again (default: one that is removed)")
	f.StringVar(&flags.etcdListen, "etcd-listen", etcdListen,
		"address of --memory, --etcd, --gateway, or of the first gateway of --keyspace; port 0: any free one")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "soft: show the nodes' log; --etcd: show etcd's")
	return c
}

func runUp(ctx context.Context, stdout, stderr io.Writer, flags upFlags) error {
	ctx, stop := outlive(ctx)
	defer stop()
	cluster, err := freeLoopback(flags.nodes, flags.shards) // also checks the numbers for a lab
	if err != nil {
		return cli.UsageError(err)
	}
	why := "as you asked"
	switch flags.plane {
	case cli.PlaneAuto:
		if os.Geteuid() != 0 {
			return upOnLoopback(ctx, stdout, stderr, cluster, flags, "because XDP and network namespaces need root")
		}
		why = "because you are root and the kernel takes it"
	case cli.PlaneSoft:
		return upOnLoopback(ctx, stdout, stderr, cluster, flags, why)
	case cli.PlaneXDP, cli.PlaneP4:
	default:
		return cli.UsageError(fmt.Errorf("--plane %q: want %s, %s, %s or %s",
			flags.plane, cli.PlaneAuto, cli.PlaneSoft, cli.PlaneXDP, cli.PlaneP4))
	}
	l, err := startLab(ctx, stderr, flags)
	if err == nil {
		what := "XDP"
		if flags.plane == cli.PlaneP4 {
			what = "P4 switches"
		}
		return upInLab(ctx, stdout, stderr, l, flags, what, why)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) { // Ctrl-C, and nothing is left
		fmt.Fprintln(stderr, "\n· cleaned up")
		return nil
	}
	var usage *cli.StatusError
	exists := errors.Is(err, lab.ErrExists) || errors.Is(err, lab.ErrRemains)
	if flags.plane != cli.PlaneAuto || errors.As(err, &usage) || exists || ctx.Err() != nil {
		return err
	}
	fmt.Fprintln(stderr, "· XDP is not possible here:", err)
	return upOnLoopback(ctx, stdout, stderr, cluster, flags, "because XDP is not possible here")
}

// outlive lets this process clean up when its terminal is closed, which ends the context, and survive the reader of its
// output, as in `netcraq up | head`.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write to a pipe or socket without a reader fails instead
	if signal.Ignored(syscall.SIGHUP) {                     // as nohup does
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// startLab brings up a lab of XDP nodes, or of the chosen plane, that ends with this process.
func startLab(ctx context.Context, stderr io.Writer, flags upFlags) (*lab.Lab, error) {
	o := lab.Options{Name: flags.name, Topology: lab.Line, Nodes: flags.nodes, Clients: 1, Shards: flags.shards,
		Publish: topology.DefaultPath(), Owned: true, Progress: progressTo(stderr)}
	plane := flags.plane
	if plane == cli.PlaneAuto {
		plane = cli.PlaneXDP
	}
	if err := setAgent(&o, plane); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, cli.UsageError(err)
	}
	return lab.Up(ctx, o)
}

// upInLab prints the examples of a lab, keeps it up, and removes it at the end.
func upInLab(ctx context.Context, stdout, stderr io.Writer, l *lab.Lab, flags upFlags, what, why string) (err error) {
	defer func() {
		_, down := lab.Down(context.WithoutCancel(ctx), l.Name)
		err = errors.Join(err, down)
	}()
	status, err := labStatus(ctx, l)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nA chain of %d on %s is up, in a lab of network namespaces: %s.\n", l.Options().Nodes, what, why)
	printStatus(stdout, status)
	printExamples(stdout, l)
	ctx, end, err := withEtcd(ctx, stdout, stderr, Chain{File: l.ClusterFile(), Pins: pinsOf(l, flags)}, flags)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, endsBy)
	err = keep(ctx, stderr, l)
	return errors.Join(err, end())
}

// pinsOf returns where processes on this machine find the memory of a lab's nodes; empty: nowhere.
func pinsOf(l *lab.Lab, flags upFlags) string {
	if flags.plane == cli.PlaneP4 {
		return ""
	}
	return l.PinsDir()
}

// keep waits until Ctrl-C or until the lab is taken down, and reports agents that end.
func keep(ctx context.Context, stderr io.Writer, l *lab.Lab) error {
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(stderr, "\n· cleaning up")
			return nil
		case host := <-l.AgentExits():
			if _, err := lab.Open(l.Name); err != nil {
				return errors.New("another process has taken the lab down")
			}
			fmt.Fprintf(stderr, "· the agent of %s has ended; its log is %s; `%s lab fault%s agent-start %s` starts another\n",
				host, l.LogFile(host), cli.CalledAs(), nameFlag(l), host)
		}
	}
}

// upOnLoopback runs the chain in this process on sockets of loopback addresses.
func upOnLoopback(
	ctx context.Context, stdout, stderr io.Writer, cluster *topology.Cluster, flags upFlags, why string,
) error {
	group, running := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(running)
	defer stop()
	if err := startNodes(running, group, cluster, stderr, flags.verbose); err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	path := topology.DefaultPath()
	withdraw, err := topology.Publish(path, cluster)
	published := err == nil
	if errors.Is(err, topology.ErrTaken) {
		path = filepath.Join(filepath.Dir(path), fmt.Sprintf("cluster-%d.yaml", os.Getpid()))
		withdraw, err = topology.Publish(path, cluster)
	}
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	fmt.Fprintf(stdout, "\nA chain of %d on sockets is up, on loopback: %s.\n\n", len(cluster.Nodes), why)
	printLoopback(stdout, cluster, path, published)
	serving, end, err := withEtcd(running, stdout, stderr, Chain{File: path}, flags)
	if err == nil {
		fmt.Fprint(stdout, endsBy)
		<-serving.Done()
		fmt.Fprintln(stderr, "\n· cleaning up")
		err = end()
	}
	err = errors.Join(err, withdraw())
	stop()
	return errors.Join(err, group.Wait())
}

// loopbackNets bounds the chains on loopback at once: each has its own /24.
const loopbackNets = 16

// freeLoopback returns a cluster on loopback addresses that no other chain uses.
func freeLoopback(nodes, shards int) (*topology.Cluster, error) {
	var c *topology.Cluster
	for net := range loopbackNets {
		var err error
		if c, err = loopbackCluster(byte(net), nodes, shards); err != nil || free(c) {
			return c, err
		}
	}
	return c, nil // its addresses are in use, which opening the sockets reports
}

// free reports whether the addresses of a cluster are unused.
func free(c *topology.Cluster) bool {
	for _, node := range c.Nodes {
		data, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(node.Addr))
		if err != nil {
			return false
		}
		data.Close()
		api, err := net.Listen("tcp4", node.APIAddr())
		if err != nil {
			return false
		}
		api.Close()
	}
	return true
}

func loopbackCluster(net byte, nodes, shards int) (*topology.Cluster, error) {
	if nodes < 1 || nodes > wire.MaxChain {
		return nil, fmt.Errorf("--nodes %d: a chain has 1 to %d", nodes, wire.MaxChain)
	}
	c := &topology.Cluster{Epoch: 1, Shards: shards, Chains: [][]string{nil}}
	for i := 1; i <= nodes; i++ {
		name := fmt.Sprintf("n%d", i)
		c.Nodes = append(c.Nodes, topology.Node{Name: name,
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, net, byte(i)}), wire.Port)})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return c, c.Validate()
}

// startNodes starts nodes and waits until they serve. If one fails, it leaves none open.
func startNodes(ctx context.Context, group *errgroup.Group, c *topology.Cluster, stderr io.Writer, verbose bool) error {
	if !verbose {
		stderr = io.Discard
	}
	log := cli.NewLog(stderr, verbose, cli.LogFormat{})
	var agents []*agent.Agent
	for _, node := range c.Nodes {
		plane, err := clinode.OpenSoft(clinode.PlaneRequest{Addr: node.Addr, Chain: clinode.DefaultChainOptions(c.Shards)})
		if err != nil {
			return fmt.Errorf("%s: %w", node.Name, err)
		}
		a, err := agent.New(agent.Options{Name: node.Name, Cluster: c, Plane: plane, API: node.APIAddr(), Log: log})
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", node.Name, err), plane.Close())
		}
		agents = append(agents, a)
		group.Go(func() error { return errors.Join(a.Serve(ctx), plane.Close()) })
	}
	for _, a := range agents {
		_ = a.Await(ctx) // if ctx ends, the group says why
	}
	return nil
}

func printLoopback(w io.Writer, c *topology.Cluster, path string, published bool) {
	cluster := ""
	if !published {
		cluster = " --cluster " + path
	}
	table := cli.NewTable(w)
	defer table.Flush()
	for _, node := range c.Nodes {
		fmt.Fprintf(table, "  %s\t%s\t%v\n", node.Name, topology.RoleIn(c.Chain(0), node.Name), node.Addr)
	}
	fmt.Fprintf(table, "\nTheir cluster file is %s. Try:\n", path)
	fmt.Fprintf(table, "  %s put%s greeting hello\twrite\n", cli.CalledAs(), cluster)
	fmt.Fprintf(table, "  %s get%s greeting --trace\tread, and show the path of the request\n", cli.CalledAs(), cluster)
}
