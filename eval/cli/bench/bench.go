package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/internal/cli"
)

// benchOutput holds the output flags of a benchmark.
type benchOutput struct {
	json bool
	csv  string
}

func newBenchCommand() *cobra.Command {
	out := new(benchOutput)
	c := &cobra.Command{
		Use:   "bench",
		Short: cli.ShortOf("bench"),
		Long: "Measure nodes in private network namespaces. Requests are made and every answer is checked in the\n" +
			"kernel. Needs root. The benchmark removes everything that it makes, even if it is killed.",
	}
	c.PersistentFlags().BoolVar(&out.json, "json", false, "print one JSON object only")
	c.PersistentFlags().StringVar(&out.csv, "csv", "", "also write the rows to this file")
	c.AddCommand(newBenchReadCommand(out), newBenchDistanceCommand(out), newBenchWriteCommand(out),
		newBenchMixCommand(out), newBenchClientCommand(out), newBenchLineCommand(out),
		newBenchLatencyCommand(out), newBenchMemoryCommand(out), newBenchRestartCommand(out), newBenchPodCommand(out),
		newBenchFailoverCommand(out), newBenchJoinCommand(out), newBenchRejoinCommand(out),
		newBenchFigureCommand(out), newBenchFiguresCommand(out), newBenchPeersCommand(out), newBenchEtcdCommand(out),
		newBenchTransactionsCommand(out), newBenchProtectionsCommand(out), newBenchGatewayCommand(out), newBenchMemberCommand(out),
		newBenchKeyspaceCommand(out), newBenchWritersCommand(out), newBenchLeasesCommand(out), newBenchListsCommand(out),
		newBenchKubernetesCommand(out), newBenchStaleCommand(out))
	return c
}

// benchNodeFlags adds the flags that select the node.
func benchNodeFlags(c *cobra.Command, o *bench.NodeOptions) {
	f := c.Flags()
	f.StringVar(&o.Plane, "plane", "xdp", "the nodes' data plane: xdp, soft or p4")
	f.StringVar(&o.Mode, "node-mode", "auto", "how an XDP node is attached: auto, native or generic")
	f.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "length of every value")
	conditionFlags(c, &o.Conditions)
}

// conditionFlags adds the flags that make a measurement easier than use.
func conditionFlags(c *cobra.Command, o *bench.Conditions) {
	f := c.Flags()
	f.BoolVar(&o.InOrder, "in-order", false, "request keys in the order of their insertion, not shuffled")
	f.BoolVar(&o.LeaseForever, "lease-forever", false, "grant leases without an end, which no read compares with the clock")
}

func newBenchReadCommand(out *benchOutput) *cobra.Command {
	o := bench.ReadOptions{NodeOptions: bench.NodeOptions{Keys: 1, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "read",
		Short: "Clean reads of one node, compared with an XDP program that only swaps addresses and a UDP echo on sockets",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.ReadResult, error) { return bench.Read(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	slotsFlag(c, &o.Slots)
	windowFlags(c, &o.Seconds, &o.Rounds)
	return c
}

// slotsFlag adds the flag for the number of requests per frame.
func slotsFlag(c *cobra.Command, slots *int) {
	c.Flags().IntVar(slots, "slots", 1, "netcraq: requests of the client per frame, in a bundle; rates count requests")
}

// keysFlag adds the flag for the number of keys.
func keysFlag(c *cobra.Command, keys *int) {
	c.Flags().IntVar(keys, "keys", *keys, "number of keys, which requests name equally often")
}

// windowFlags adds the flags for the measuring time; *rounds is the default unless it is 0. The systems are measured in alternation
// because the machine's speed changes from one second to the next.
func windowFlags(c *cobra.Command, seconds *float64, rounds *int) {
	c.Flags().Float64Var(seconds, "seconds", 5, "time under load for each system")
	c.Flags().IntVar(rounds, "rounds", cmp.Or(*rounds, 40), "rounds over which that time is divided")
}

func newBenchDistanceCommand(out *benchOutput) *cobra.Command {
	o := bench.DistanceOptions{NodeOptions: bench.NodeOptions{Keys: 1000, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "distance",
		Short: "Clean reads at every node of a chain: throughput does not depend on the distance from the tail",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.DistanceResult, error) { return bench.Distance(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	windowFlags(c, &o.Seconds, &o.Rounds)
	c.Flags().IntVar(&o.Nodes, "nodes", 4, "length of the chain")
	return c
}

func newBenchWriteCommand(out *benchOutput) *cobra.Command {
	o := bench.WriteOptions{NodeOptions: bench.NodeOptions{Keys: 1000, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "write",
		Short: "Writes to a chain: throughput, packets per write on the links, hops until the answer",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.WriteResult, error) { return bench.Write(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	windowFlags(c, &o.Seconds, &o.Rounds)
	c.Flags().IntVar(&o.Nodes, "nodes", 3, "length of the chain")
	slotsFlag(c, &o.Slots)
	c.Flags().BoolVar(&o.Relay, "relay", false, "send ACKs up the chain node by node instead of cloning them")
	return c
}

func newBenchMixCommand(out *benchOutput) *cobra.Command {
	o := bench.MixOptions{NodeOptions: bench.NodeOptions{Keys: 1000, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "mix",
		Short: "Reads and writes of the same keys at one node of a chain",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.MixResult, error) { return bench.Mix(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	windowFlags(c, &o.Seconds, &o.Rounds)
	c.Flags().IntVar(&o.Nodes, "nodes", 3, "length of the chain")
	c.Flags().IntVar(&o.Target, "target", 0, "the node that receives the requests; 0 is the head")
	c.Flags().Float64Var(&o.WriteShare, "write-share", 0.1, "share of the requests that are writes, 0 to 1")
	return c
}

func newBenchLatencyCommand(out *benchOutput) *cobra.Command {
	o := bench.LatencyOptions{NodeOptions: bench.NodeOptions{Keys: 1, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "latency",
		Short: "One request at a time through a socket: read, write and UDP echo",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.LatencyResult, error) { return bench.Latency(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	c.Flags().IntVar(&o.Nodes, "nodes", 3, "length of the chain")
	c.Flags().IntVar(&o.Count, "count", 20_000, "requests of each kind")
	return c
}

func newBenchMemoryCommand(out *benchOutput) *cobra.Command {
	o := bench.MemoryOptions{NodeOptions: bench.NodeOptions{Keys: 1_000_000, ValueBytes: 16}}
	c := &cobra.Command{
		Use:   "memory",
		Short: "Memory per object, and reads of a full node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Progress = out.progress()
			return runBench(c, out, func(ctx context.Context) (*bench.MemoryResult, error) { return bench.Memory(ctx, o) })
		},
	}
	benchNodeFlags(c, &o.NodeOptions)
	keysFlag(c, &o.Keys)
	windowFlags(c, &o.Seconds, &o.Rounds)
	return c
}

// progress returns a function that overwrites one line of standard error with the current step. It
// shows nothing if standard error is not a terminal.
func (o *benchOutput) progress() bench.Progress {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return func(text string) { fmt.Fprint(os.Stderr, cli.ClearLine, text) }
}

// runBench checks the requirements, runs a benchmark of nodes and prints its report.
func runBench[R bench.Report](c *cobra.Command, out *benchOutput, run func(context.Context) (R, error)) error {
	if err := bench.Preflight(); err != nil {
		return err
	}
	return reportBench(c, out, run)
}

// reportBench runs any benchmark and prints its report.
func reportBench[R bench.Report](c *cobra.Command, out *benchOutput, run func(context.Context) (R, error)) error {
	r, err := run(c.Context())
	if out.progress() != nil {
		fmt.Fprint(os.Stderr, cli.ClearLine)
	}
	switch {
	case errors.As(err, new(*etcdgateway.LeftError)):
		return err
	case c.Context().Err() != nil:
		return errors.New("interrupted; nothing is left behind")
	case errors.As(err, new(*bench.OptionError)):
		return cli.UsageError(err)
	case err != nil:
		return err
	}
	if out.csv != "" {
		if err := writeCSVFile(out.csv, r); err != nil {
			return err
		}
	}
	if out.json {
		return cli.PrintJSON(c.OutOrStdout(), r)
	}
	return bench.WriteTable(c.OutOrStdout(), r)
}

func writeCSVFile(path string, r bench.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := bench.WriteCSV(f, r); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
