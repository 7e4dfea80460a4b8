package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/controller"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// etcdPortAbove is how far the port of an embedded etcd's peers is above the controller's.
const etcdPortAbove = 1

// controllerFlags are the command line of `netcraq controller`.
type controllerFlags struct {
	name, listen, dir, cluster string
	members                    []string
	endpoints                  []string
	etcdClient                 string
	identity                   string
	priority                   scheduling.Class
	metrics                    string
	form                       store.Formation
	balance                    reconfig.BalanceOptions
	verbose, json              bool
}

func newControllerCommand() *cobra.Command {
	var flags controllerFlags
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run a controller: it keeps a cluster's chains whole",
		Long: `Run a controller: it keeps a cluster's chains whole.

The cluster's state is in etcd. Unless --etcd-endpoints names one, the controllers run it themselves, with
its data below --data-dir. Start one controller, or an odd number of them, with the same --initial-cluster each:
the cluster goes on as long as most of them live.

The first start forms the cluster with the settings given; later starts need none. Nodes join with
netcraq node --join, clients follow with --controllers.`,
		Example: `  netcraq controller --data-dir /var/lib/netcraq
  netcraq controller --data-dir /var/lib/netcraq --name c1 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3
  netcraq controller --etcd-endpoints 192.0.2.7:2379 --listen 192.0.2.1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runController(c.Context(), c.ErrOrStderr(), &flags)
		},
	}
	f, s, d := c.Flags(), &flags.form.Settings, controller.Defaults()
	f.StringVar(&flags.name, "name", "c1", "this controller's name in --initial-cluster")
	f.StringVar(&flags.listen, "listen", "",
		fmt.Sprintf("address to serve on (port %d unless given; default: from --initial-cluster, or 127.0.0.1)",
			topology.ControllerPort))
	f.StringSliceVar(&flags.members, "initial-cluster", nil,
		"all controllers, as name=address; the same for each (default: this one alone)")
	f.StringVar(&flags.dir, "data-dir", "", "directory of the embedded etcd")
	f.StringVar(&flags.etcdClient, "etcd-client", "",
		"address at which the embedded etcd serves etcdctl and others (default: none)")
	f.StringSliceVar(&flags.endpoints, "etcd-endpoints", nil, "use this etcd instead of an embedded one")
	f.StringVar(&flags.cluster, "cluster", "default", "the cluster's name in etcd, which can hold several")
	cli.PriorityFlag(f, &flags.priority)
	f.StringVar(&flags.identity, "identity", "",
		"directory of this controller's certificate, as netcraq certs makes it (default: no encryption)")
	f.StringVar(&flags.metrics, "metrics", "", "TCP address to serve metrics for Prometheus on (default: none)")
	f.IntVar(&s.Shards, "shards", 0, fmt.Sprintf("number of shards, a power of two (default %d)", d.Shards))
	f.IntVar(&s.Replicas, "replicas", 0, fmt.Sprintf("members of a chain (default %d)", d.Replicas))
	f.StringVar(&s.Spread, "spread", "",
		fmt.Sprintf("label of nodes in which the members of a chain should differ (default %q)", d.Spread))
	f.IntVar(&s.CellBytes, "cell-bytes", 0, fmt.Sprintf("longest value that nodes store (default %d)", d.CellBytes))
	f.DurationVar(&s.Heartbeat, "beat", 0,
		fmt.Sprintf("interval between two heartbeats of a node (default %v)", d.Heartbeat))
	f.DurationVar(&s.Lease, "lease", 0,
		fmt.Sprintf("how long a node may answer reads without hearing of most controllers (default %v)", d.Lease))
	f.DurationVar(&s.Suspect, "suspect", 0,
		fmt.Sprintf("silence after which a node is taken out of its chains (default %v)", d.Suspect))
	f.DurationVar(&s.LeaseMax, "lease-max", 0,
		fmt.Sprintf("what --lease grows to at most where processes pause (default %v)", d.LeaseMax))
	f.DurationVar(&s.SuspectMax, "suspect-max", 0,
		fmt.Sprintf("what --suspect grows to at most where processes pause (default %v)", d.SuspectMax))
	f.DurationVar(&s.Sure, "sure", 0,
		fmt.Sprintf("silence after which a node is taken out of a chain of two; a longer chain loses it at once (default %v)",
			d.Sure))
	f.BoolVar(&s.Tags, "tags", false,
		"let every message of the data plane carry a tag, with keys that change every two minutes; needs --identity")
	f.IntVar(&flags.form.FormWith, "form-with", 0,
		"nodes that join before the first chains are made (default: --replicas)")
	f.Float64Var(&flags.balance.HotReads, "hot-reads", 0,
		"reads a second at each member from which on a chain gets another member (default 50000)")
	f.Float64Var(&flags.balance.HotNode, "hot-node", 0,
		"operations a second from which on shards move off a node that does much more than others (default 50000)")
	f.BoolVar(&flags.json, "log-json", false, "write the log as JSON")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "log more")
	return c
}

func runController(ctx context.Context, stderr io.Writer, flags *controllerFlags) error {
	o, err := flags.resolve()
	if err != nil {
		return cli.UsageError(err)
	}
	o.Log = cli.NewLog(stderr, flags.verbose, flags.json)
	if err := scheduling.Raise(flags.priority); err != nil {
		o.Log.Warn("on a busy machine nodes may look as if they had failed: this process may not raise its priority (CAP_SYS_NICE)", "because", err)
	}
	c, err := controller.New(o)
	if err != nil {
		return err
	}
	if err := c.Serve(ctx); err != nil {
		return err
	}
	o.Log.Info("controller stopped", "address", o.Address)
	return nil
}

// resolve makes options of the command line.
func (flags *controllerFlags) resolve() (controller.Options, error) {
	o := controller.Options{Form: flags.form, Balance: flags.balance, Metrics: flags.metrics,
		Store: store.Options{Cluster: flags.cluster}}
	if err := controller.Check(&flags.form); err != nil {
		return o, err
	}
	if flags.balance.HotReads < 0 || flags.balance.HotNode < 0 {
		return o, errors.New("--hot-reads and --hot-node are rates, which are not negative")
	}
	if flags.form.Settings.Tags && flags.identity == "" {
		return o, errors.New("--tags needs --identity: whoever may ask for keys without a certificate may do everything")
	}
	identity, err := cli.LoadIdentity(flags.identity)
	if err != nil {
		return o, err
	}
	o.Identity = identity
	addresses, err := flags.addresses()
	if err != nil {
		return o, err
	}
	o.Address = addresses[flags.name]
	if len(flags.members) > 0 {
		for _, address := range addresses {
			o.Form.Controllers = append(o.Form.Controllers, address)
		}
		slices.Sort(o.Form.Controllers)
	}
	switch {
	case len(flags.endpoints) > 0 && flags.dir != "":
		return o, errors.New("--data-dir is for an embedded etcd, and --etcd-endpoints for another: give one of them")
	case len(flags.endpoints) > 0:
		o.Store.Endpoints = flags.endpoints
	case flags.dir == "":
		return o, errors.New("where is the cluster's state to be kept? Give --data-dir, or --etcd-endpoints")
	default:
		e := &store.Embedded{Name: flags.name, Dir: flags.dir, Client: flags.etcdClient, Peers: make(map[string]string)}
		for name, address := range addresses {
			if e.Peers[name], err = portAbove(address, etcdPortAbove); err != nil {
				return o, err
			}
		}
		if identity != nil {
			e.Cert, e.Key, e.Authority = identity.Files()
		}
		o.Store.Embedded = e
	}
	return o, nil
}

// addresses returns where each controller serves, by name.
func (flags *controllerFlags) addresses() (map[string]string, error) {
	addresses := make(map[string]string)
	for _, member := range flags.members {
		name, address, ok := strings.Cut(member, "=")
		if !ok || name == "" || addresses[name] != "" {
			return nil,
				fmt.Errorf("--initial-cluster %q: each controller stands there once as name=address, such as c1=192.0.2.1",
					strings.Join(flags.members, ","))
		}
		address, err := reachable(address)
		if err != nil {
			return nil, fmt.Errorf("--initial-cluster: %w", err)
		}
		addresses[name] = address
	}
	listen := flags.listen
	switch {
	case len(addresses) == 0 && listen == "":
		listen = "127.0.0.1"
	case len(addresses) > 0 && addresses[flags.name] == "":
		return nil, fmt.Errorf("--name %s is not among --initial-cluster %s", flags.name, strings.Join(flags.members, ","))
	case listen == "":
		return addresses, nil
	}
	address, err := reachable(listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if known := addresses[flags.name]; known != "" && known != address {
		return nil, fmt.Errorf("--listen %s, but --initial-cluster has %s at %s", address, flags.name, known)
	}
	addresses[flags.name] = address
	return addresses, nil
}

// reachable completes the address of a controller, and checks that it can be that of one machine.
func reachable(address string) (string, error) {
	address, err := topology.ControllerAddr(address)
	if err != nil {
		return "", err
	}
	if host, err := netip.ParseAddrPort(address); err == nil && host.Addr().IsUnspecified() {
		return "", fmt.Errorf("%s is no address at which others can reach this controller", address)
	}
	return address, nil
}

// portAbove is the address of a port that many above another.
func portAbove(address string, above int) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n+above > 65535 {
		return "", fmt.Errorf("port %s: one is needed above it for the embedded etcd", port)
	}
	return net.JoinHostPort(host, strconv.Itoa(n+above)), nil
}
