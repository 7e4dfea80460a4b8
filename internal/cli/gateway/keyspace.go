package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/bcrypt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/netcraq/netcraq/api/keyspacev1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/memory"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
	"github.com/netcraq/netcraq/internal/keyspace/peer"
	"github.com/netcraq/netcraq/internal/keyspace/record"
	"github.com/netcraq/netcraq/internal/node/nearby"
	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/systemd"
)

// The values of --durability.
const (
	onDisk   = "disk"
	inMemory = "memory"
)

// keyspaceFlags are the command line of `netcraq keyspace`.
type keyspaceFlags struct {
	gateway    gatewayFlags // those that it shares
	dir        string
	member     string
	durability string
	token      string
	tokenTTL   uint
	cost       int
}

func newKeyspaceCommand() *cobra.Command {
	flags := keyspaceFlags{}
	c := &cobra.Command{
		Use:   "keyspace",
		Short: "Serve etcd's API from a keyspace on disks, without an etcd",
		Long: `Serve etcd's API from a keyspace on disks, without an etcd.

The chain orders the writes, and each gateway writes them to its data directory. A write is acknowledged when a majority
of the disks has it. Run one gateway on each of three or five machines, with the same name and controllers. Each answers
linearizable reads from its own copy. After a loss of the chain, of power, or of a minority of the disks the keyspace goes
on by itself; see docs/keyspace.md.`,
		Example: `  netcraq keyspace --data-dir /var/lib/netcraq/keyspace --listen 192.0.2.7:2379 --controllers 192.0.2.1,192.0.2.2
  etcdctl --endpoints 192.0.2.7:2379,192.0.2.8:2379,192.0.2.9:2379 put greeting hello`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return flags.run(c.Context(), c.ErrOrStderr())
		},
	}
	flags.add(c.Flags())
	c.AddCommand(newImportCommand())
	return c
}

func (k *keyspaceFlags) add(f *pflag.FlagSet) {
	o, m := &k.gateway.options, &k.gateway.memory
	f.StringVar(&k.dir, "data-dir", "", "directory of this gateway's disk; needed unless --durability memory")
	f.StringVar(&m.name, "name", memory.DefaultName, "name of the keyspace")
	f.StringVar(&k.member, "member", "", "name of this gateway, to which the directory belongs (default: the address at which others reach it)")
	f.StringVar(&k.durability, "durability", onDisk, "what a write is acknowledged for: disk, or memory, which is netcraq gateway --memory")
	f.StringVar(&o.Listen, "listen", cli.GatewayListen, "address to serve on, for clients and for the other gateways")
	f.StringVar(&o.Advertise, "advertise-client-url", "", "host:port at which clients and other gateways reach this one (default: --listen)")
	f.StringSliceVar(&o.Metrics, "metrics-addr", nil,
		"additional URLs that serve /metrics and the other pages, but no keys and values")
	addClientCertificates(f, &o.Clients)
	f.StringVar(&o.Etcd.Cert, "cert", "", "certificate presented to the other gateways")
	f.StringVar(&o.Etcd.Key, "key", "", "key of --cert")
	f.StringVar(&o.Etcd.CA, "cacert", "", "authorities that sign the gateways' certificates")
	f.BoolVar(&o.Etcd.SkipVerify, "insecure-skip-tls-verify", false, "accept any certificate of a gateway: for tests only")
	addLimits(f, o)
	addProfiles(f, o)
	f.Int64Var(&m.quota, "quota-bytes", 0,
		"memory that the keyspace may take with its history (default: half of the memory limit of the control group, else of "+
			"the machine's memory; at most 2 GiB)")
	f.DurationVar(&m.progress, "watch-progress-notify-interval", 10*time.Minute,
		"time without events after which a watch that asked for it is told the revision; as etcd's flag")
	f.StringVar(&k.token, "auth-token", "simple",
		"users' tokens: simple, or jwt,sign-method=...,priv-key=...,pub-key=...,ttl=..., as etcd's flag")
	f.UintVar(&k.tokenTTL, "auth-token-ttl", 300, "seconds after which a simple token ends that is not used")
	f.IntVar(&k.cost, "bcrypt-cost", bcrypt.DefaultCost, "cost of the hash of a user's password: 4 to 31")
	k.gateway.cluster.Add(f)
	addPins(f, &k.gateway.pins)
	f.BoolVar(&k.gateway.verbose, "debug", false, "log everything")
	k.gateway.logFormat.Add(f)
}

// check refuses flags that do not belong together.
func (k *keyspaceFlags) check() error {
	m := &k.gateway.memory
	if err := k.gateway.checkBytes(); err != nil {
		return err
	}
	switch {
	case k.durability != onDisk && k.durability != inMemory:
		return cli.UsageError(fmt.Errorf("--durability %q: want %s or %s", k.durability, onDisk, inMemory))
	case k.durability == onDisk && k.dir == "":
		return cli.UsageError(errors.New("--data-dir: name the directory of this gateway's disk"))
	case k.durability == inMemory && k.dir != "":
		return cli.UsageError(errors.New("--data-dir: not with --durability memory, which keeps nothing on disks"))
	case k.durability == inMemory && k.gateway.pins != pods.PinRoot:
		return cli.UsageError(errors.New(
			"--pins: not with --durability memory, whose gateways do not read the chain for a read"))
	case m.quota != 0 && m.quota < minQuota:
		return cli.UsageError(fmt.Errorf("--quota-bytes %d: want at least %d", m.quota, minQuota))
	case m.progress < minProgress:
		return cli.UsageError(fmt.Errorf("--watch-progress-notify-interval %v: want at least %v", m.progress, minProgress))
	}
	if err := record.CheckName(m.name); err != nil {
		return cli.UsageError(fmt.Errorf("--name: %w", err))
	}
	if err := record.CheckMember(k.member); err != nil {
		return cli.UsageError(fmt.Errorf("--member: %w", err))
	}
	return k.checkTokens()
}

// checkTokens reads the keys of signed tokens.
func (k *keyspaceFlags) checkTokens() (err error) {
	if k.cost < bcrypt.MinCost || k.cost > bcrypt.MaxCost {
		return cli.UsageError(fmt.Errorf("--bcrypt-cost %d: want %d to %d", k.cost, bcrypt.MinCost, bcrypt.MaxCost))
	}
	ttl := time.Duration(k.tokenTTL) * time.Second
	if k.gateway.memory.tokens, err = keyspace.NewTokens(k.token, ttl, k.cost); err != nil || k.token == "" {
		return cli.UsageError(fmt.Errorf("--auth-token %q: want simple, or jwt with its options as for etcd: %w",
			k.token, err))
	}
	return nil
}

// run serves until ctx ends.
func (k *keyspaceFlags) run(ctx context.Context, log io.Writer) error {
	if k.durability == inMemory {
		k.gateway.memory.entries = chainlog.DefaultEntries
		return k.gateway.memory.serve(ctx, log, &k.gateway)
	}
	err := k.open(ctx, log, nil, func(
		ctx context.Context, s *memory.Server, chain *connect.Client, log *slog.Logger,
	) error {
		warnOpenChain(log, chain.Map())
		log.Info("this gateway serves a keyspace on disks", "address", s.Addr().String(), "keyspace", k.gateway.memory.name,
			"directory", k.dir)
		systemd.Supervise(ctx, log, nil)()
		return s.Serve(ctx)
	})
	return unlessEnded(ctx, err)
}

// open waits for the cluster, opens the keyspace and the data directory, and calls use. begin writes the state with
// which the keyspace begins, which must not exist then; nil: it may exist.
func (k *keyspaceFlags) open(ctx context.Context, log io.Writer, begin func(io.Writer) error,
	use func(context.Context, *memory.Server, *connect.Client, *slog.Logger) error,
) error {
	m, o := &k.gateway.memory, k.gateway.options
	o.Log, o.Clients.Dir = cli.NewLog(log, k.gateway.verbose, k.gateway.logFormat), filepath.Join(k.dir, journal.Certificates)
	cluster, err := k.gateway.cluster.Read()
	if err != nil {
		return err
	}
	if !cluster.Managed() {
		return cli.UsageError(errors.New("--controllers: a keyspace on disks has its record there, and this cluster has none: " +
			"name those of a cluster, or try netcraq up --keyspace"))
	}
	dial, err := k.gateway.cluster.Dial()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(k.dir, 0o700); err != nil { // said before the cluster is waited for
		return fmt.Errorf("--data-dir %s cannot be made: name a directory in which this user may write: %w", k.dir, err)
	}
	chain, err := k.gateway.cluster.Await(ctx, client.Options{}, o.Log)
	if err != nil {
		return err
	}
	defer chain.Close()
	known, err := journal.Known(k.dir)
	if err != nil {
		return err
	}
	controllers := func() []string {
		if now := chain.Map().Controllers; len(now) > 0 {
			return now
		}
		return cluster.Controllers
	}
	r, err := record.Open(ctx, record.Options{
		Name: m.name, Dial: dial, Known: known, Controllers: controllers,
		Waits: cli.Waits(o.Log, "waiting for the keyspace's record"),
	})
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // the process ends
	if begin != nil {
		if err := isNew(ctx, r, m.name); err != nil {
			return err
		}
	}
	near, leave := k.nearby(ctx, chain.Client, o.Log)
	defer leave()
	s, err := k.listen(chain, near, r, memory.ServerOptions{
		Options: memory.Options{
			Advertise: o.Advertise, MaxRequestBytes: o.MaxRequestBytes, Log: o.Log, ProgressEvery: m.progress,
			QuotaBytes: m.bounds(ctx, o.Log), Tokens: m.tokens, Temporary: k.dir, Begin: begin,
		},
		Listen: o.Listen, Clients: o.Clients, Metrics: o.Metrics, MaxConnections: o.MaxConnections, PeerCertificates: o.Etcd,
		Profiles: o.Profiles,
	})
	if err != nil {
		return err
	}
	return use(ctx, s, chain, o.Log)
}

// nearby returns the nodes on this machine; nil: none are used. leave ends their use.
func (k *keyspaceFlags) nearby(ctx context.Context, c *client.Client, log *slog.Logger) (
	near objects.Nearby, leave func(),
) {
	if k.gateway.pins == "" {
		return nil, func() {}
	}
	reads := nearby.New(k.gateway.pins, log)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { reads.Run(ctx, c) })
	return reads, func() { cancel(); running.Wait() }
}

// listen opens the data directory and listens.
func (k *keyspaceFlags) listen(chain *connect.Client, near objects.Nearby, r *record.Record, o memory.ServerOptions) (
	*memory.Server, error,
) {
	name := k.gateway.memory.name
	space := peer.Keyspace{Name: name, ID: r.ID(), Secret: r.Secret()}
	o.Chain, o.Name, o.ID, o.Secret = chain.Client, name, r.ID(), r.Secret()
	o.Disk = func(d driver.Options, peers credentials.TransportCredentials) (*driver.Driver, error) {
		d.Dir, d.Member, d.Record = k.dir, cmp.Or(k.member, d.Address), r
		d.Log, d.Peers = chainlog.NewEras(chain.Client, near, name, r.ID(), 0), peer.New(space, peers)
		return driver.Open(d)
	}
	o.Others = func(d *driver.Driver) (*grpc.ServiceDesc, any) {
		return &keyspacev1.Peers_ServiceDesc, peer.NewServer(space, d.Disk().Name, d)
	}
	return memory.Listen(o)
}
