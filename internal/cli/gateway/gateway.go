package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/proxy"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/node/pods"
	"github.com/netcraq/netcraq/internal/platform/memlimit"
	"github.com/netcraq/netcraq/internal/platform/systemd"
)

// gatewayFlags are the command line of `netcraq gateway`.
type gatewayFlags struct {
	options   proxy.Options
	cluster   cli.ClusterFlags
	placement placement.Options
	memory    memoryFlags
	pins      string
	clean     bool
	verbose   bool
	logFormat cli.LogFormat
}

func newGatewayCommand() *cobra.Command {
	flags := gatewayFlags{placement: placement.Defaults()}
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Serve etcd's clients in front of an etcd cluster",
		Long: `Serve etcd's clients in front of an etcd cluster of version 3.5 or later.

The gateway serves the whole API: KV, Watch, Lease, Cluster, Maintenance, Auth, locks, elections, health and reflection.
The same port has /version, /health, /metrics (etcd's), /proxy/metrics (the gateway's) and JSON below /v3/. Calls, tokens
and errors are forwarded unchanged. It has most flags of "etcd grpc-proxy start", which it can replace;
docs/clients.md has the results of etcd's own tests.

With --memory the gateway needs no etcd. It serves a keyspace that exists only in the memory of the chain's nodes, such
as Kubernetes' leases. THE KEYSPACE IS LOST if all nodes of one chain lose their state at the same time; see
docs/memory.md.`,
		Example: `  netcraq gateway --etcd-endpoints http://192.0.2.1:2379,http://192.0.2.2:2379 --listen 127.0.0.1:23790
  netcraq gateway --etcd-endpoints https://192.0.2.1:2379 --cacert ca.crt --cert etcd.crt --key etcd.key --auto-tls
  netcraq gateway --memory --listen 192.0.2.7:23790 --controllers 192.0.2.1,192.0.2.2,192.0.2.3
  netcraq gateway --etcd-endpoints http://192.0.2.1:2379 --clean
  etcdctl --endpoints 127.0.0.1:23790 get greeting`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.complete(c.Flags()); err != nil {
				return err
			}
			if flags.clean {
				return runClean(c.Context(), c.OutOrStdout(), &flags.options)
			}
			return runGateway(c.Context(), c.ErrOrStderr(), &flags)
		},
	}
	f, o := c.Flags(), &flags.options
	f.StringVar(&o.Listen, "listen", cli.GatewayListen, "address to serve on")
	f.StringVar(&o.Listen, "listen-addr", cli.GatewayListen, "same as --listen")
	f.StringSliceVar(&o.Endpoints, "etcd-endpoints", []string{"127.0.0.1:2379"},
		"etcd's members: host:port, http://, https:// or unix://")
	f.StringSliceVar(&o.Endpoints, "endpoints", []string{"127.0.0.1:2379"}, "same as --etcd-endpoints")
	f.StringVar(&o.Advertise, "advertise-client-url", "", "address that the member list shows (default: etcd's own list)")
	f.StringVar(&o.Clients.Dir, "data-dir", "default.proxy", "directory for the certificate of --auto-tls")
	f.StringSliceVar(&o.Metrics, "metrics-addr", nil,
		"additional URLs that serve /metrics and the other pages, but no keys and values")
	addClientCertificates(f, &o.Clients)
	f.StringVar(&o.Etcd.Cert, "cert", "",
		"certificate presented to etcd; its common name must be empty, or etcd would authenticate all clients as the gateway")
	f.StringVar(&o.Etcd.Key, "key", "", "key of --cert")
	f.StringVar(&o.Etcd.CA, "cacert", "", "authorities that sign etcd's certificates")
	f.BoolVar(&flags.clean, "clean", false,
		"delete all keys of the gateways in etcd, once no gateway runs, and do not serve")
	f.BoolVar(&o.Etcd.SkipVerify, "insecure-skip-tls-verify", false, "accept any certificate of etcd: for tests only")
	addProbes(f, &o.KeepAlive)
	f.DurationVar(&o.Follow, "endpoints-auto-sync-interval", 0,
		"interval at which the endpoints are updated from etcd's member list (default: never)")
	addLimits(f, o)
	addProfiles(f, o)
	flags.cluster.Add(f)
	f.Lookup("cluster").Usage = "cluster `file` of the chain (default: nothing is cached; with --memory: as for netcraq get)"
	f.Lookup("controllers").Usage = "TCP `addresses` of controllers or agents, instead of a cluster file"
	p := &flags.placement
	f.IntVar(&p.Capacity, "cache-bytes", p.Capacity, "bytes of the chain that this etcd's keys may take")
	f.StringSliceVar(&p.Pinned, "pin", nil, "prefixes of keys that are cached from their first read on; \"\": all keys")
	f.StringSliceVar(&p.Excluded, "exclude", nil, "prefixes of keys that are never cached")
	addPins(f, &flags.pins)
	flags.memory.add(f)
	f.BoolVar(&flags.verbose, "debug", false, "log everything")
	flags.logFormat.Add(f)
	return c
}

// addPins adds the flag for reads from nodes on the same machine.
func addPins(f *pflag.FlagSet, pins *string) {
	f.StringVar(pins, "pins", pods.PinRoot,
		"directory with the pins of this machine's nodes, for reads without the network; \"\": always use the network")
}

// addClientCertificates adds the flags for connections from clients.
func addClientCertificates(f *pflag.FlagSet, o *serve.TowardsClients) {
	f.StringVar(&o.Cert, "cert-file", "", "certificate presented to clients")
	f.StringVar(&o.Key, "key-file", "", "key of --cert-file")
	f.StringVar(&o.CA, "trusted-ca-file", "", "authorities that sign clients' certificates")
	f.StringVar(&o.Revoked, "client-crl-file", "", "list of revoked client certificates")
	f.StringSliceVar(&o.Ciphers, "listen-cipher-suites", nil, "cipher suites for clients (default: Go's)")
	f.StringVar(&o.Least, "tls-min-version", "TLS1.2", "oldest TLS version for clients: TLS1.2 or TLS1.3")
	f.StringVar(&o.Most, "tls-max-version", "", "newest TLS version for clients (default: Go's)")
	f.BoolVar(&o.Auto, "auto-tls", false, "generate a certificate to present to clients")
	f.UintVar(&o.Years, "self-signed-cert-validity", 1, "validity in years of the certificate of --auto-tls")
}

func addLimits(f *pflag.FlagSet, o *proxy.Options) {
	f.IntVar(&o.MaxRequestBytes, "max-request-bytes", serve.DefaultMaxRequestBytes,
		"largest request; as etcd's own --max-request-bytes")
	f.IntVar(&o.MaxConnections, "max-connections", 0,
		"most connections of clients (default: three quarters of the process's limit of descriptors, at most 16384)")
}

func addProfiles(f *pflag.FlagSet, o *proxy.Options) {
	f.BoolVar(&o.Profiles, "enable-pprof", false, "serve profiles of the gateway below /debug/pprof/")
}

func addProbes(f *pflag.FlagSet, k *proxy.KeepAlive) {
	f.DurationVar(&k.Time, "dial-keepalive-time", proxy.DefaultKeepAlive.Time,
		"idle time after which a connection to etcd is probed; 0: never")
	f.DurationVar(&k.Timeout, "dial-keepalive-timeout", proxy.DefaultKeepAlive.Timeout, "time to wait for the answer to a probe")
	f.BoolVar(&k.Idle, "permit-without-stream", false, "probe connections without calls too")
}

// complete checks the flags that were given.
func (g *gatewayFlags) complete(f *pflag.FlagSet) error {
	if f.Changed("pin") && len(g.placement.Pinned) == 0 { // the flag reads "" as an empty list
		g.placement.Pinned = []string{""}
	}
	if g.clean && g.memory.on {
		return cli.UsageError(errors.New("--clean is for an etcd, and --memory uses none"))
	}
	return cmp.Or(g.checkBytes(), g.memory.check(f), checkChain(f, &g.cluster), g.checkEtcd())
}

// checkEtcd refuses addresses that no etcd can have.
func (g *gatewayFlags) checkEtcd() error {
	if err := g.options.CheckEndpoints(); err != nil && !g.memory.on {
		return cli.UsageError(fmt.Errorf("--etcd-endpoints: %w", err))
	}
	return nil
}

func (g *gatewayFlags) checkBytes() error {
	switch n := g.options.MaxRequestBytes; {
	case n <= 0 || n > maxRequestBytes:
		return cli.UsageError(fmt.Errorf("--max-request-bytes %d: want 1 to %d", n, maxRequestBytes))
	case g.options.MaxConnections < 0:
		return cli.UsageError(fmt.Errorf("--max-connections %d: want 0, for the default, or more", g.options.MaxConnections))
	case g.placement.Capacity < 0:
		return cli.UsageError(fmt.Errorf("--cache-bytes %d: want 0, which caches nothing, or more", g.placement.Capacity))
	}
	return nil
}

// checkChain refuses a chain without a name, such as that of a variable that is not set: the gateway would cache nothing.
func checkChain(f *pflag.FlagSet, cluster *cli.ClusterFlags) error {
	none := cluster.File == "" && len(cluster.Controllers) == 0
	for _, name := range []string{"cluster", "controllers"} {
		if none && f.Changed(name) {
			return cli.UsageError(fmt.Errorf("--%s is empty: name the chain, or leave the flag out to cache nothing", name))
		}
	}
	for _, name := range []string{"pin", "exclude"} {
		if none && f.Changed(name) {
			return cli.UsageError(fmt.Errorf("--%s has no effect without a chain: name it with --cluster or --controllers", name))
		}
	}
	return nil
}

// servesMessage is in the line that programs wait for which start etcd's own proxy.
const servesMessage = "started gRPC proxy"

// collectAt is by how many percent the heap of a gateway without a keyspace grows between two garbage collections, unless
// $GOGC says otherwise. Its live heap is small, so with Go's default of 100 it would collect many times a second.
const collectAt = 400

// besides is what a gateway takes of memory besides a keyspace, or requests and answers, in bytes.
const besides = 256 << 20

// collectBelow has the garbage collector keep the process below what it holds, in bytes, and [besides], and below seven
// eighths of the memory limit of its control group, unless GOMEMLIMIT says otherwise.
func collectBelow(holds int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	most := holds + besides
	if limit, limited := memlimit.Find(); limited {
		most = min(most, limit-limit/8)
	}
	debug.SetMemoryLimit(most)
}

// maxRequestBytes bounds the limit of requests. etcd recommends to stay far below.
const maxRequestBytes = 1 << 30

func runGateway(ctx context.Context, log io.Writer, flags *gatewayFlags) error {
	if os.Getenv("GOGC") == "" && !flags.memory.on {
		debug.SetGCPercent(collectAt)
	}
	flags.options.Metrics = slices.DeleteFunc(flags.options.Metrics, func(s string) bool { return s == "" })
	if flags.memory.on {
		return flags.memory.serve(ctx, log, flags)
	}
	collectBelow(grpcserver.DefaultMemory)
	o := flags.options
	o.Log = cli.NewLog(log, flags.verbose, flags.logFormat)
	var c *chain
	if flags.cluster.File != "" || len(flags.cluster.Controllers) > 0 {
		var err error
		if c, err = connectChain(ctx, &flags.cluster, flags.pins, o.Log); err != nil {
			return err
		}
		defer c.close()
		o.Cache = c.cache()
		o.Cache.Placement = flags.placement
	} else {
		o.Log.Info("the gateway only forwards: --controllers or --cluster names the chain that it caches in")
	}
	ready := sync.OnceFunc(systemd.Supervise(ctx, o.Log, nil))
	for {
		s, err := proxy.New(ctx, o)
		if err != nil {
			return err
		}
		o.Log.Info(servesMessage, "address", s.Addr().String(), "etcd", o.Endpoints, "cache", o.Cache != nil)
		ready()
		if err := run(ctx, s, c); !errors.Is(err, proxy.ErrAgain) {
			return err
		}
		o.Log.Warn("the gateway begins anew: etcd's authentication was disabled again")
	}
}

// cleanWithin is how long etcd may take to delete the gateways' keys.
const cleanWithin = 10 * time.Second

// runClean deletes all keys of the gateways in etcd.
func runClean(ctx context.Context, out io.Writer, o *proxy.Options) error {
	ctx, cancel := context.WithTimeout(ctx, cleanWithin)
	defer cancel()
	deleted, err := o.Clean(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d keys of the gateways deleted: etcd has none of them any more\n", deleted)
	return err
}

// run serves, and reaches for a chain that does not answer yet; nil: there is none.
func run(ctx context.Context, s *proxy.Server, c *chain) error {
	group, ctx := errgroup.WithContext(ctx)
	serving, stop := context.WithCancel(ctx)
	group.Go(func() error {
		defer stop()
		return s.Serve(ctx)
	})
	if c != nil {
		group.Go(func() error { return c.serve(serving, s) })
	}
	return group.Wait()
}
