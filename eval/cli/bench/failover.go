package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/internal/cli"
	clilab "github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/chaos"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// benchTrialLab is the default lab of benchmarks that need a whole cluster.
const benchTrialLab = "bench"

func newBenchFailoverCommand(out *benchOutput) *cobra.Command {
	m := clilab.ManagedDefaults()
	o := chaos.FailoverOptions{}
	shards, name, figure := 0, benchTrialLab, ""
	c := &cobra.Command{
		Use:   "failover",
		Short: "Measure how long writes and reads stop when a node loses its power, and the time of the repair",
		Long: `Brings up a managed cluster in a lab, with one node more than a chain has members, and powers a node off while each
client writes and reads a key of its own. The results are the worst of all rounds. They include the time that a client
waits between two operations. For each number of shards a plot over time is written with its data.`,
		Example: `  netcraq bench failover
  netcraq bench failover --shards 256 --victim tail --rounds 5 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Shards = []int{1, 256}; shards > 0 {
				o.Shards = []int{shards}
			}
			if o.Rounds < 1 || shards < 0 {
				return cli.UsageError(fmt.Errorf("--rounds %d --shards %d: want at least 1 of each", o.Rounds, shards))
			}
			if o.Objects < 0 {
				return cli.UsageError(fmt.Errorf("--objects %d: want 0 or more", o.Objects))
			}
			m.Objects = max(m.Objects, o.Objects+probeRoom)
			return runTrial(c, out, &m, name, func(ctx context.Context, s chaos.Setup) (*chaos.FailoverResult, error) {
				o.Setup = s
				r, err := chaos.Failover(ctx, o)
				if err == nil && figure != "" {
					r.Files, err = drawFailover(r, figure)
				}
				return r, err
			}, printFailover)
		},
	}
	f := c.Flags()
	f.IntVar(&shards, "shards", 0, "number of shards, a power of two (default: once with 1 and once with 256)")
	f.IntVar(&o.Objects, "objects", 0, "objects stored beforehand, beside the clients' own, for the repair to copy")
	f.StringVar(&o.Victim, "victim", chaos.Head, "its place in the chain of the first shard: head, middle or tail")
	f.IntVar(&o.Rounds, "rounds", 1, "nodes lost, one after the other, with each number of shards")
	f.StringVar(&figure, "figure", "out/failover",
		"where to write the figure and its numbers, as .svg, .png and .csv; empty: nowhere")
	f.StringVar(&name, "name", name, "name of the lab")
	m.Add(f)
	return c
}

// drawFailover plots the curves to files and returns the names of the files.
func drawFailover(r *chaos.FailoverResult, path string) ([]string, error) {
	drawn := plot.Figure{Rows: 2, X: "time since the failure, s", Y: "operations/s"}
	for _, c := range r.Curves {
		panel := plot.Panel{Title: c.Title, Spans: []plot.Span{
			{Name: "repair", From: c.RepairFrom.Seconds(), To: c.RepairTo.Seconds()}, {Name: "failure"},
		}}
		for _, line := range c.Lines {
			points := make([]plot.Point, 0, len(line.Rates))
			for _, rate := range line.Rates {
				points = append(points, plot.Point{X: rate.At.Seconds(), Y: rate.PerSecond})
			}
			panel.Lines = append(panel.Lines, plot.Line{Name: line.Name, Points: points})
		}
		drawn.Panels = append(drawn.Panels, panel)
	}
	return drawn.WriteFiles(path)
}

// runTrial builds the setup of a lab and prints the result of a trial on it.
func runTrial[R any](c *cobra.Command, out *benchOutput, m *clilab.ManagedFlags, name string,
	run func(context.Context, chaos.Setup) (R, error), print func(io.Writer, R)) error {
	o, err := m.Options(name)
	if err != nil {
		return err
	}
	show := clilab.NewShow(c.ErrOrStderr())
	o.Owned, o.Progress = true, show.Event
	r, err := run(c.Context(), chaos.Setup{
		Lab: o, Replicas: m.Replicas, Leader: clilab.LeaderOf, Event: show.Event,
		Logs: clilab.TrialLogs(name, uint64(os.Getpid())),
	})
	show.End()
	switch err = clilab.TrialError(c.Context(), err); {
	case errors.Is(err, lab.ErrExists):
		return fmt.Errorf("%w, with --name", err)
	case err != nil:
		return err
	case out.json:
		return cli.PrintJSON(c.OutOrStdout(), r)
	}
	print(c.OutOrStdout(), r)
	return nil
}

func printFailover(w io.Writer, r *chaos.FailoverResult) {
	table := cli.NewTable(w)
	defer table.Flush()
	fmt.Fprintln(table, "shards\tlost\taffected\twrites stop, ms\tduring repair, ms\treads stop at survivors, ms\t"+
		"before, ms\tat any node, ms\tnoticed, ms\tcopied, MB\tre-formed after, s")
	for _, x := range r.Rounds {
		fmt.Fprintf(table, "%d\t%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\n", x.Shards, x.Node, x.Affected,
			x.WriteGapMs, x.RepairPauseMs, x.ReadGapMs, x.QuietGapMs, x.ClientReadGapMs, x.NoticedMs, x.CopiedMB, x.RepairS)
	}
	fmt.Fprintln(table)
	for i, x := range r.Rounds {
		parts := x.WriteGapParts
		fmt.Fprintf(table, "Of the longest gap of writes in round %d, %.1f ms passed until clients had a map without "+
			"the node, and %.1f ms until a write succeeded.\n", i+1, parts.MapMs, parts.WriteMs)
	}
	fmt.Fprintf(table, "\nEvery gap includes the %.0f ms that a client pauses.\n", r.PauseMs)
	for _, file := range r.Files {
		fmt.Fprintln(table, "wrote", file)
	}
}
