package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// defaultLab is the lab that commands use without --name.
const defaultLab = "lab"

func newLabCommand() *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "lab",
		Short: cli.ShortOf("lab"),
		Long: `A lab is a network of hosts on this machine. Each host is a network namespace with a node of the chain or a client. The
hosts are joined by veth links and routed by the kernel. Links can lose, duplicate and damage packets, and nodes can be
killed.`,
		Example: `  netcraq lab up --topology line --nodes 3 --clients 1
  netcraq lab status
  netcraq lab exec c1 -- netcraq put greeting hello
  netcraq lab fault loss 2
  netcraq lab down
  netcraq lab up --managed --nodes 4
  netcraq lab chaos --minutes 5
  netcraq lab busy --seconds 60`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&name, "name", defaultLab, "name of the lab")
	c.AddCommand(newLabUpCommand(&name), newLabDownCommand(&name), newLabStatusCommand(&name), newLabExecCommand(&name),
		newLabFaultCommand(&name), newLabCheckCommand(&name), newLabChaosCommand(&name),
		newLabBusyCommand(&name), newLabChurnCommand(&name), newLabRolloutCommand(&name), newLabBurnCommand(), newLabEtcdCommand(),
		newLabMemberCommand(),
		newKubernetesCommand(&name))
	completeHosts(c, &name)
	labs := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return lab.Names(), cobra.ShellCompDirectiveNoFileComp
	}
	if err := c.RegisterFlagCompletionFunc("name", labs); err != nil {
		panic(err) // cannot fail: the flag is defined above
	}
	return c
}

// completeHosts adds shell completion of a lab's hosts.
func completeHosts(c *cobra.Command, name *string) {
	for _, sub := range c.Commands() {
		completeHosts(sub, name)
	}
	_, what, _ := strings.Cut(c.Use, " ")
	if what, _, _ = strings.Cut(what, " "); what != "HOST" && what != "NODE" {
		return
	}
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		l, err := lab.Open(*name)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		hosts := l.Plan.Hosts
		if what == "NODE" {
			hosts = l.Plan.With(lab.RoleNode)
		}
		var names []string
		for _, h := range hosts {
			names = append(names, h.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func newLabUpCommand(name *string) *cobra.Command {
	var o lab.Options
	plane, wires, relay, managed := cli.PlaneXDP, true, false, false
	m := ManagedDefaults()
	c := &cobra.Command{
		Use:   "up",
		Short: "Bring a lab up",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Name, o.Direct, o.Publish, o.Progress = *name, !wires, topology.DefaultPath(), progressTo(c.ErrOrStderr())
			if err := setCommands(c, &o, &m, plane, managed); err != nil {
				return err
			}
			if relay {
				o.AddToAgent("--relay")
			}
			if err := o.Validate(); err != nil {
				return cli.UsageError(err)
			}
			l, err := lab.Up(c.Context(), o)
			if err != nil {
				return err
			}
			status, err := labStatus(c.Context(), l)
			if err != nil {
				return err
			}
			printStatus(c.OutOrStdout(), status)
			if plane != "none" {
				printExamples(c.OutOrStdout(), l)
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&managed, "managed", false,
		"run controllers, which form and repair chains of the nodes; without it there is one fixed chain of all nodes")
	f.IntVar(&m.controllers, "controllers", m.controllers, "with --managed: number of controllers")
	f.IntVar(&m.Replicas, "replicas", m.Replicas, "with --managed: members of a chain")
	m.addTimes(f)
	f.StringVar(&o.Topology, "topology", lab.Line, "how the nodes are linked: "+lab.Line+", "+lab.LeafSpine+
		" or "+lab.Fabric+" (every host at both spines; the default with --managed)")
	f.IntVar(&o.Nodes, "nodes", 3,
		fmt.Sprintf("number of nodes, the chain in this order (--managed: %d unless given)", m.Nodes))
	f.IntVar(&o.Clients, "clients", 1, "number of client hosts")
	f.StringVar(&o.ClientAt, "client-at", "",
		"the node that clients attach to (default: the first on a line, one after the other on leaf-spine)")
	f.IntVar(&o.Shards, "shards", 1,
		fmt.Sprintf("number of shards, a power of two (--managed: %d unless given)", m.Shards))
	f.StringVar(&plane, "plane", cli.PlaneXDP,
		"data plane of the nodes: xdp, soft or p4, or a list with one for each node; none for a network without nodes")
	f.BoolVar(&relay, "relay", false, "send ACKs up the chain node by node, as planes that cannot clone packets do")
	f.BoolVar(&wires, "wires", true,
		"run links through a program that can inject faults; without it links are slightly faster")
	return c
}

// setCommands sets the commands that the lab runs, and the defaults of a managed lab.
func setCommands(c *cobra.Command, o *lab.Options, m *ManagedFlags, plane string, managed bool) error {
	if !managed {
		for _, flag := range []string{"controllers", "replicas", "beat", "lease", "suspect", "sure"} {
			if c.Flags().Changed(flag) {
				return cli.UsageError(fmt.Errorf("--%s is for a lab with controllers: give --managed", flag))
			}
		}
		return setAgent(o, plane)
	}
	for flag, choose := range map[string]func(){
		"topology": func() { o.Topology = lab.Fabric },
		"nodes":    func() { o.Nodes = m.Nodes },
		"shards":   func() { o.Shards = m.Shards },
	} {
		if !c.Flags().Changed(flag) {
			choose()
		}
	}
	m.Nodes, m.Shards, m.plane = o.Nodes, o.Shards, plane
	sized, err := m.Options(o.Name)
	if err != nil {
		return err
	}
	o.Controllers, o.Controller, o.Agent = sized.Controllers, sized.Controller, sized.Agent
	return nil
}

// setAgent makes the lab's nodes run the product as `netcraq node`.
func setAgent(o *lab.Options, plane string) error {
	if plane == "none" {
		return nil
	}
	planes, err := planesOf(plane, o.Nodes)
	if err != nil {
		return err
	}
	self, err := cli.ProductPath()
	if err != nil {
		return err
	}
	o.Beside = planes.beside(self)
	o.Agent = func(l *lab.Lab, h lab.Host) []string {
		argv := []string{self, "node", "--name", h.Name, "--cluster", l.ClusterFile()}
		return append(append(argv, planes.arguments(l, h)...), planes.sizes()...)
	}
	return nil
}

// printExamples prints commands for the user to paste.
func printExamples(w io.Writer, l *lab.Lab) {
	table := cli.NewTable(w)
	defer table.Flush()
	cluster := ""
	if !l.Published() {
		cluster = " --cluster " + l.ClusterFile()
	}
	if cluster != "" && !l.Options().NoRoot {
		fmt.Fprintf(table,
			"\nAnother cluster is the default of this machine, so commands on it need a flag to find this one.\n")
	}
	fmt.Fprintln(table, "\nTry:")
	self := cli.CalledAs() // the path by which the user called it, for pasting
	fmt.Fprintf(table, "  %s put%s greeting hello\twrite, from this machine\n", self, cluster)
	fmt.Fprintf(table, "  %s get%s greeting --trace\tread, and show the path of the request\n", self, cluster)
	if clients := l.Plan.With(lab.RoleClient); len(clients) > 0 {
		fmt.Fprintf(table, "  %s lab exec%s %s -- netcraq get greeting\tthe same from a client host\n", self,
			nameFlag(l), clients[0].Name)
	}
	fmt.Fprintf(table, "  %s lab status%s\tstate and counters of the nodes\n", self, nameFlag(l))
	fmt.Fprintf(table, "  %s lab fault%s loss 2\tlose 2 %% of all frames\n", self, nameFlag(l))
}

// TrialError is the error of a command whose trial has returned err, and removed its lab.
func TrialError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted; the lab is removed")
	}
	return err
}

// privateLab returns the name of the lab that a command brings up for itself: own unless --name is given. It draws the
// seed unless --seed is given.
func privateLab(c *cobra.Command, own, name string, seed *uint64) string {
	if !c.Flags().Changed("seed") {
		*seed = rand.Uint64N(1 << 32)
	}
	if c.Flags().Changed("name") {
		return name
	}
	return own
}

// nameFlag returns the flag that commands need to select this lab.
func nameFlag(l *lab.Lab) string {
	if l.Name == defaultLab {
		return ""
	}
	return " --name " + l.Name
}

func newLabDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove a lab or its remains, with everything that runs in it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			was, err := lab.Down(c.Context(), *name)
			if err != nil {
				return err
			}
			if !was {
				fmt.Fprintf(c.OutOrStdout(), "lab %q is not up; nothing to do\n", *name)
				return nil
			}
			fmt.Fprintf(c.OutOrStdout(), "lab %q is gone\n", *name)
			return nil
		},
	}
}

func newLabExecCommand(name *string) *cobra.Command {
	c := &cobra.Command{
		Use:   "exec HOST [-- COMMAND...]",
		Short: "Run a command in a host, a shell by default",
		Long: `Run a command in a host, a shell by default. Input, output and exit status are the command's own. In the
host, netcraq is the program that runs the lab's nodes, and it finds them without flags.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			argv := args[1:]
			if len(argv) > 0 && strings.HasPrefix(argv[0], "-") && argv[0] != "--" { // not a command's name
				if err := c.Flags().Parse(argv); err != nil {
					return cli.UsageError(err)
				}
				argv = c.Flags().Args()
			}
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			if len(argv) > 0 && argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				argv = []string{"sh", "-i"}
			}
			if argv[0] == cli.ProductName { // independent of the file's name
				if argv[0], err = cli.ProductPath(); err != nil {
					return err
				}
			}
			return l.Exec(args[0], argv)
		},
	}
	c.Flags().SetInterspersed(false) // flags after the command belong to it
	return c
}

// progressTo returns a function that prints steps.
func progressTo(w io.Writer) func(string) {
	return func(step string) { fmt.Fprintf(w, "· %s\n", step) }
}
