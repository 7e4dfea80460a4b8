package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/agent"
	"github.com/netcraq/netcraq/internal/lab"
	"github.com/netcraq/netcraq/internal/topology"
	"github.com/netcraq/netcraq/wire"
)

// upFlags are the command line of `netcraq up`.
type upFlags struct {
	plane, name   string
	nodes, shards int
	verbose       bool
}

func newUpCommand() *cobra.Command {
	var flags upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Start a chain on this machine and keep it until Ctrl-C",
		Long: `Start a chain on this machine and keep it until Ctrl-C.

As root the nodes are XDP programs in a lab: a network of hosts made of network namespaces. Otherwise they
are sockets on loopback addresses. Either way commands such as netcraq put and netcraq get find the chain.`,
		Example: `  netcraq up
  netcraq up --plane soft --nodes 4`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runUp(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), flags)
		},
	}
	f := c.Flags()
	f.StringVar(&flags.plane, "plane", planeAuto, "data plane: auto, soft or xdp")
	f.StringVar(&flags.name, "name", defaultLab, "xdp: name of the lab")
	f.IntVar(&flags.nodes, "nodes", 3, "number of nodes in the chain")
	f.IntVar(&flags.shards, "shards", 1, "number of shards, a power of two")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "soft: show the nodes' log")
	return c
}

func runUp(ctx context.Context, stdout, stderr io.Writer, flags upFlags) error {
	switch flags.plane {
	case planeXDP:
		return upInLab(ctx, stdout, stderr, flags, "as you asked")
	case planeSoft:
		return upOnLoopback(ctx, stdout, stderr, flags, "as you asked")
	case planeAuto:
	default:
		return fmt.Errorf("--plane %q: want %s, %s or %s", flags.plane, planeAuto, planeSoft, planeXDP)
	}
	if os.Geteuid() != 0 {
		return upOnLoopback(ctx, stdout, stderr, flags, "because XDP and network namespaces need root")
	}
	err := upInLab(ctx, stdout, stderr, flags, "because you are root and the kernel takes it")
	if err == nil || errors.Is(err, lab.ErrExists) || errors.Is(err, lab.ErrRemains) || ctx.Err() != nil {
		return err
	}
	fmt.Fprintln(stderr, "· XDP is not possible here:", err)
	return upOnLoopback(ctx, stdout, stderr, flags, "because XDP is not possible here")
}

// upInLab runs the chain as XDP nodes in a lab that ends with this process.
func upInLab(ctx context.Context, stdout, stderr io.Writer, flags upFlags, why string) (err error) {
	o := lab.Options{Name: flags.name, Topology: lab.Line, Nodes: flags.nodes, Clients: 1, Shards: flags.shards,
		Publish: topology.DefaultPath(), Owned: true, Progress: progressTo(stderr)}
	if err := setAgent(&o, planeXDP); err != nil {
		return err
	}
	l, err := lab.Up(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		_, down := lab.Down(context.WithoutCancel(ctx), o.Name)
		err = errors.Join(err, down)
	}()
	status, err := labStatus(ctx, l)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "\nA chain of %d on XDP is up, in a lab of network namespaces: %s.\n", flags.nodes, why)
	printStatus(stdout, status)
	printExamples(stdout, l)
	stay(ctx, stdout, stderr)
	return nil
}

// upOnLoopback runs the chain in this process, on sockets of loopback addresses.
func upOnLoopback(ctx context.Context, stdout, stderr io.Writer, flags upFlags, why string) error {
	cluster, err := loopbackCluster(flags.nodes, flags.shards)
	if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(running)
	defer stop()
	if err := startNodes(running, group, cluster, stderr, flags.verbose); err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	path := topology.DefaultPath()
	withdraw, err := topology.Publish(path, cluster)
	if err != nil {
		stop()
		return errors.Join(err, group.Wait())
	}
	fmt.Fprintf(stdout, "\nA chain of %d on sockets is up, on loopback: %s.\n\n", flags.nodes, why)
	printLoopback(stdout, cluster, path)
	stay(running, stdout, stderr)
	err = withdraw()
	stop()
	return errors.Join(err, group.Wait())
}

func loopbackCluster(nodes, shards int) (*topology.Cluster, error) {
	if nodes < 1 || nodes > wire.MaxChain {
		return nil, fmt.Errorf("--nodes %d: a chain has 1 to %d", nodes, wire.MaxChain)
	}
	c := &topology.Cluster{Epoch: 1, Shards: shards, Chains: [][]string{nil}}
	for i := 1; i <= nodes; i++ {
		name := fmt.Sprintf("n%d", i)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i)}), wire.Port)})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return c, c.Validate()
}

// startNodes opens all planes before it runs an agent, and none is left open if one fails.
func startNodes(ctx context.Context, group *errgroup.Group, c *topology.Cluster, stderr io.Writer, verbose bool) error {
	if !verbose {
		stderr = io.Discard
	}
	log := newLog(stderr, verbose, false)
	for _, node := range c.Nodes {
		plane, err := openSoft(planeRequest{addr: node.Addr, chain: defaultChainOptions(c.Shards)})
		if err != nil {
			return fmt.Errorf("%s: %w", node.Name, err)
		}
		a, err := agent.New(agent.Options{Name: node.Name, Cluster: c, Plane: plane, API: node.APIAddr(), Log: log})
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", node.Name, err), plane.Close())
		}
		group.Go(func() error { return errors.Join(a.Serve(ctx), plane.Close()) })
	}
	return nil
}

func printLoopback(w io.Writer, c *topology.Cluster, path string) {
	table := newTable(w)
	defer table.Flush()
	for _, node := range c.Nodes {
		fmt.Fprintf(table, "  %s\t%s\t%v\n", node.Name, topology.RoleIn(c.Chain(0), node.Name), node.Addr)
	}
	fmt.Fprintf(table, "\nTheir cluster file is %s. Try:\n", path)
	fmt.Fprintf(table, "  %s put greeting hello\twrite\n", os.Args[0])
	fmt.Fprintf(table, "  %s get greeting --trace\tread, and see who answered\n", os.Args[0])
}

// stay waits for Ctrl-C.
func stay(ctx context.Context, stdout, stderr io.Writer) {
	fmt.Fprintln(stdout, "\nCtrl-C ends it and leaves nothing behind.")
	<-ctx.Done()
	fmt.Fprintln(stderr, "\n· cleaning up")
}
