package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/controller"
	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/cordon"
	"github.com/netcraq/netcraq/internal/cluster/dashboard"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
	"github.com/netcraq/netcraq/internal/platform/systemd"
	"github.com/netcraq/netcraq/wire"
)

// controllerFlags are the command line of `netcraq controller`.
type controllerFlags struct {
	name, listen, dir, cluster string
	members                    []string
	endpoints                  []string
	etcdClient                 string
	identity                   string
	priority                   scheduling.Class
	metrics, dashboard         string
	form                       store.Formation
	tags                       bool
	balance                    reconfig.BalanceOptions
	replacement                bool
	kubernetes, account        string
	verbose                    bool
	logFormat                  cli.LogFormat
}

func newControllerCommand() *cobra.Command {
	var flags controllerFlags
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run a controller, which forms and repairs a cluster's chains",
		Long: `Run a controller, which forms and repairs a cluster's chains.

The cluster's state is in etcd. Unless --etcd-endpoints names an etcd, the controllers run one themselves, with
its data below --data-dir. Start one controller or an odd number of controllers, all with the same
--initial-cluster. The cluster can change as long as a majority of them runs.

The first start forms the cluster with the given settings; later starts need none. Nodes join with
netcraq node --join, and clients find the cluster with --controllers.`,
		Example: `  netcraq controller --data-dir /var/lib/netcraq
  netcraq controller --data-dir /var/lib/netcraq --name c1 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3
  netcraq controller --etcd-endpoints 192.0.2.7:2379 --name c1 --initial-cluster c1=192.0.2.1,c2=192.0.2.2,c3=192.0.2.3`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runController(c.Context(), c.ErrOrStderr(), &flags)
		},
	}
	f, s, d := c.Flags(), &flags.form.Settings, controller.Defaults()
	f.StringVar(&flags.name, "name", "c1", "this controller's name in --initial-cluster")
	f.StringVar(&flags.listen, "listen", "",
		fmt.Sprintf("address to serve on (default port %d; default: from --initial-cluster, or 127.0.0.1)",
			topology.ControllerPort))
	f.StringSliceVar(&flags.members, "initial-cluster", nil,
		fmt.Sprintf("all controllers, at most %d, as name=address, when the cluster is formed (default: only this one)", wire.MaxGranters))
	f.StringVar(&flags.dir, "data-dir", "", "directory of the embedded etcd")
	f.BoolVar(&flags.replacement, "replacement", false,
		"start without data, after netcraq controllers add or netcraq controllers replace")
	f.StringVar(&flags.etcdClient, "etcd-client", "",
		"address at which the embedded etcd serves clients such as etcdctl (default: none)")
	f.StringSliceVar(&flags.endpoints, "etcd-endpoints", nil, "use this etcd instead of an embedded one")
	f.StringVar(&flags.cluster, "cluster", "default", "the cluster's name in etcd, which can hold several")
	cli.PriorityFlag(f, &flags.priority)
	f.StringVar(&flags.identity, "identity", "",
		"directory of this controller's certificate, as netcraq certs makes it (default: no encryption)")
	flags.addPages(f)
	f.IntVar(&s.Shards, "shards", 0, fmt.Sprintf("number of shards, a power of two (default %d)", d.Shards))
	f.IntVar(&s.Replicas, "replicas", 0, fmt.Sprintf("members of a chain (default %d)", d.Replicas))
	f.StringVar(&s.Spread, "spread", "",
		fmt.Sprintf("label of nodes that should differ between the members of a chain (default %q)", d.Spread))
	f.IntVar(&s.CellBytes, "cell-bytes", 0, fmt.Sprintf("maximum length of a value in bytes (default %d)", d.CellBytes))
	f.DurationVar(&s.Heartbeat, "beat", 0,
		fmt.Sprintf("interval between two heartbeats of a node (default %v)", d.Heartbeat))
	f.DurationVar(&s.Lease, "lease", 0,
		fmt.Sprintf("read lease: time for which a node may answer reads after an answer of a majority of controllers (default %v)",
			d.Lease))
	f.DurationVar(&s.Suspect, "suspect", 0,
		fmt.Sprintf("heartbeat timeout after which a node is removed from its chains (default %v)", d.Suspect))
	f.DurationVar(&s.LeaseMax, "lease-max", 0,
		fmt.Sprintf("maximum to which --lease grows on machines whose processes pause (default %v)", d.LeaseMax))
	f.DurationVar(&s.SuspectMax, "suspect-max", 0,
		fmt.Sprintf("maximum to which --suspect grows on machines whose processes pause (default %v)", d.SuspectMax))
	f.DurationVar(&s.Sure, "sure", 0,
		fmt.Sprintf("heartbeat timeout after which a node is removed from a chain of two, which leaves one copy (default %v)",
			d.Sure))
	f.BoolVar(&flags.tags, "tags", false,
		"authenticate every message of the data plane with a tag, whose keys change every two minutes; needs --identity")
	f.IntVar(&flags.form.FormWith, "form-with", 0,
		"number of nodes that must join before the first chains are formed (default: --replicas)")
	flags.addBalance(f)
	flags.addKubernetes(f)
	flags.logFormat.Add(f)
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "log more")
	return c
}

func (flags *controllerFlags) addPages(f *pflag.FlagSet) {
	f.StringVar(&flags.metrics, "metrics", "", "TCP address to serve metrics for Prometheus on (default: none)")
	f.StringVar(&flags.dashboard, "dashboard", "", "TCP address to serve the page of netcraq dashboard on, such as "+
		dashboard.DefaultAddress+"; one that other hosts reach needs --identity, and asks browsers for a certificate "+
		"(default: none)")
}

func (flags *controllerFlags) addBalance(f *pflag.FlagSet) {
	f.Float64Var(&flags.balance.HotReads, "hot-reads", 0,
		"reads per second at each member above which a chain gets another member (default 50000)")
	f.Float64Var(&flags.balance.HotNode, "hot-node", 0,
		"operations per second above which shards move off a node with much more load than others (default 50000)")
}

func (flags *controllerFlags) addKubernetes(f *pflag.FlagSet) {
	f.StringVar(&flags.kubernetes, "kubernetes", "",
		"drain the nodes of machines that are cordoned in Kubernetes: URL of its API server, or \""+cordon.Service+
			"\" for the address that pods have (default: none)")
	f.StringVar(&flags.account, "kubernetes-account", cordon.Account,
		"directory with the token and ca.crt of a service account that may get and list nodes")
}

func runController(ctx context.Context, stderr io.Writer, flags *controllerFlags) error {
	o, err := flags.resolve()
	if err != nil {
		return cli.UsageError(err)
	}
	o.Log = cli.NewLog(stderr, flags.verbose, flags.logFormat)
	cli.WarnOpen(o.Log, o.Identity != nil, true) // whether there are tags is not known yet
	switch err := scheduling.Raise(flags.priority); {
	case errors.Is(err, scheduling.ErrNotRealTime):
		o.Log.Info("on a busy machine it may suspect live nodes", "because", err)
	case err != nil:
		o.Log.Warn("this process may not raise its priority (CAP_SYS_NICE): on a busy machine it may suspect live nodes",
			"because", err)
	}
	var page *board
	if flags.dashboard != "" {
		if page, err = newBoard(ctx, flags.dashboard, flags.identity, o); err != nil {
			return err
		}
	}
	o.Up = systemd.Supervise(ctx, o.Log, nil)
	if err := serve(ctx, o, page); err != nil {
		return err
	}
	o.Log.Info("controller stopped", "address", o.Address)
	return nil
}

// serve runs the controller, and its dashboard unless that is nil, until ctx or one of them ends.
func serve(ctx context.Context, o controller.Options, page *board) error {
	c, err := controller.New(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	if page != nil {
		group.Go(func() error { return page.serve(ctx, o.Log) })
	}
	group.Go(func() error { defer cancel(); return c.Serve(ctx) })
	return group.Wait()
}

// resolve converts the command line to options.
func (flags *controllerFlags) resolve() (controller.Options, error) {
	o := controller.Options{Form: flags.form, Balance: flags.balance, Metrics: flags.metrics,
		Store: store.Options{Cluster: flags.cluster}}
	if flags.balance.HotReads < 0 || flags.balance.HotNode < 0 {
		return o, errors.New("--hot-reads and --hot-node are rates and cannot be negative")
	}
	if flags.tags && flags.identity == "" {
		return o, errors.New("--tags needs --identity: without certificates any host could request the keys")
	}
	if flags.kubernetes != "" {
		machines, err := cordon.New(flags.kubernetes, flags.account)
		if err != nil {
			return o, fmt.Errorf("--kubernetes: %w", err)
		}
		o.Machines = machines
	}
	o.Form.Settings.Tags = reconfig.FormedTags(flags.tags)
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
		for _, name := range slices.Sorted(maps.Keys(addresses)) {
			one, err := cli.NewController(name, addresses[name])
			if err != nil {
				return o, err
			}
			o.Form.Controllers.Members = append(o.Form.Controllers.Members, one)
		}
	}
	if err := controller.Check(&o.Form); err != nil {
		return o, err
	}
	switch {
	case len(flags.endpoints) > 0 && flags.dir != "":
		return o, errors.New("--data-dir is for the embedded etcd, --etcd-endpoints for another one: give only one of them")
	case len(flags.endpoints) > 0:
		o.Store.Endpoints = flags.endpoints
	case flags.dir == "":
		return o, errors.New("give --data-dir or --etcd-endpoints: the cluster's state needs a place")
	default:
		e := &store.Embedded{
			Name: flags.name, Dir: flags.dir, Client: flags.etcdClient, Joins: flags.replacement, Peers: make(map[string]string),
		}
		for name, address := range addresses {
			one, err := cli.NewController(name, address)
			if err != nil {
				return o, err
			}
			e.Peers[name] = one.Peer
		}
		if identity != nil {
			e.Cert, e.Key, e.Authority = identity.Files()
			if _, err := os.Stat(identity.Revoked()); err == nil { // etcd wants it to exist, and reads it at every connection
				e.Revoked = identity.Revoked()
			}
		}
		o.Store.Embedded = e
	}
	return o, nil
}

// addresses returns the address of each controller by name.
func (flags *controllerFlags) addresses() (map[string]string, error) {
	addresses := make(map[string]string)
	for _, member := range flags.members {
		name, address, ok := strings.Cut(member, "=")
		if !ok || name == "" || addresses[name] != "" {
			return nil,
				fmt.Errorf("--initial-cluster %q: list each controller once as name=address, such as c1=192.0.2.1",
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

// reachable completes the address of a controller and refuses addresses that name no single machine.
func reachable(address string) (string, error) {
	address, err := topology.ControllerAddr(address)
	if err != nil {
		return "", err
	}
	if host, err := netip.ParseAddrPort(address); err == nil && host.Addr().IsUnspecified() {
		return "", fmt.Errorf("%s cannot be used: other machines need an address at which they can reach this controller", address)
	}
	return address, nil
}
