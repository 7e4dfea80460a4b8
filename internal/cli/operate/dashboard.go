package operate

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/client/connect"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/dashboard"
)

// dashboardFlags are the command line of `netcraq dashboard`.
type dashboardFlags struct {
	cluster cli.ClusterFlags
	keys    cli.GatewayFlags
	listen  string
	writes  bool
}

func newDashboardCommand() *cobra.Command {
	var flags dashboardFlags
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page that shows a cluster while it changes",
		Long: `Serve a page that shows a cluster while it changes: chains, loads, hot shards, failures and repairs, the keys of
gateways, and the path of a request.

The page changes nothing in the cluster and shows no values. With --trace-writes it also follows writes: it writes and deletes
netcraq/dashboard/N, a key in the shard of the asked one. It asks for no password: every user who reaches --listen
sees names of nodes and keys, and can ask whether a key exists. Reach it from elsewhere through ssh -L.`,
		Example: `  netcraq dashboard --controllers 192.0.2.11
  netcraq dashboard --controllers 192.0.2.11 --gateways 127.0.0.1:23790 --listen 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDashboard(c, &flags) },
	}
	f := c.Flags()
	flags.cluster.Add(f)
	flags.keys.Add(f)
	flags.keys.Gateways, f.Lookup("gateways").DefValue = nil, "[]" // none unless they are named
	f.StringVar(&flags.listen, "listen", dashboard.DefaultAddress, "TCP address to serve the page at")
	f.BoolVar(&flags.writes, "trace-writes", false, "let the page follow writes, of keys of its own")
	return c
}

func runDashboard(c *cobra.Command, flags *dashboardFlags) error {
	host, _, err := net.SplitHostPort(flags.listen)
	if err != nil {
		return cli.UsageError(fmt.Errorf("--listen: want host:port, such as %s: %w", dashboard.DefaultAddress, err))
	}
	cluster, err := flags.cluster.Read()
	if err != nil {
		return err
	}
	source := dashboard.Source{Writes: flags.writes, Open: func(ctx context.Context) (*connect.Client, error) {
		return flags.cluster.Connect(ctx, client.Options{})
	}}
	if source.Dial, err = flags.cluster.Dial(); err != nil {
		return err
	}
	if cluster.Managed() {
		source.Leader = admin.NewLeader(cluster.Controllers, source.Dial)
		defer source.Leader.Close()
	}
	if len(flags.keys.Gateways) > 0 {
		if err := flags.keys.Load(); err != nil {
			return err
		}
		source.Gateways = &flags.keys.Client
	}
	listener, at, err := dashboard.Listen(c.Context(), flags.listen)
	if err != nil {
		return fmt.Errorf("%w: name another address with --listen", err)
	}
	if !at.IP.IsLoopback() {
		fmt.Fprintf(c.ErrOrStderr(), "netcraq: everybody who reaches %v sees the names of nodes and keys\n", at)
	}
	fmt.Fprintf(c.OutOrStdout(), "http://%v/\n", at)
	return dashboard.New(source, host).Serve(c.Context(), listener, nil)
}
