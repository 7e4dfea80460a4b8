package operate

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/replay"
)

type placementFlags struct {
	file string
	replay.Options
	json bool
}

// placementResult is the output of `netcraq placement --replay --json`.
type placementResult struct {
	File       string  `json:"file"`
	Reads      int     `json:"reads"`
	HitShare   float64 `json:"hit_share"`
	BestFixed  float64 `json:"best_fixed_share"`
	Ratio      float64 `json:"ratio"`
	AllShare   float64 `json:"hit_share_of_all_reads"`
	Adapt      float64 `json:"adapt_s"`
	Placements int     `json:"placements"`
	Removals   int     `json:"removals"`
	Writes     int     `json:"writes"`     // of clients, of single keys
	OwnWrites  int     `json:"own_writes"` // of the directory
	Capacity   int     `json:"capacity_bytes"`
	MostBytes  int     `json:"most_bytes"`
	Why        string  `json:"explanation,omitempty"`
}

func newPlacementCommand() *cobra.Command {
	flags := placementFlags{Options: replay.Options{Placement: placement.Defaults()}}
	c := &cobra.Command{
		Use:   "placement --replay FILE",
		Short: "Explain why gateways cache keys, and replay recorded etcd traffic to evaluate the choice",
		Long: `Replay recorded etcd traffic to evaluate the placement of cached keys.

The trace is CSV, possibly compressed, with the columns t_s, method, op, key, range, lease, succ and vlen. The result has
three figures: the share of single-key reads that placed keys answer; the same share for the best fixed set of the same
size, chosen afterwards; and the longest time from the second read of a hot key until it was placed. docs/gateway.md
describes how keys are chosen.`,
		Example: `  netcraq placement --replay trace.csv.gz
  netcraq placement --replay trace.csv.gz --explain /registry/namespaces/kube-system
  netcraq placement explain /registry/namespaces/kube-system --gateways 127.0.0.1:23790`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runPlacement(c.OutOrStdout(), &flags) },
	}
	c.AddCommand(newExplainCommand(), newAllowCommand())
	f, p := c.Flags(), &flags.Placement
	f.StringVar(&flags.file, "replay", "", "file with the trace")
	f.StringVar(&flags.Explain, "explain", "", "explain why this key is placed at the end or not")
	f.IntVar(&p.Capacity, "capacity", p.Capacity, "memory for all objects in bytes")
	f.IntVar(&p.Overhead, "overhead", p.Overhead, "memory of an object without its value in bytes")
	f.IntVar(&p.Largest, "largest", p.Largest, "maximum length of a value in bytes")
	f.Float64Var(&p.WriteCost, "write-cost", p.WriteCost, "cost of a write of a placed key, in reads")
	f.Float64Var(&p.Least, "least", p.Least, "minimum benefit for which a key is placed, in reads a second")
	f.Float64Var(&p.Stay, "stay", p.Stay, "factor by which placed keys are preferred to others")
	f.Float64Var(&p.Residence, "residence", p.Residence, "minimum time in seconds for which a key stays placed")
	f.StringSliceVar(&p.Pinned, "pin", nil, "prefixes of keys that are always placed")
	f.StringSliceVar(&p.Excluded, "exclude", nil, "prefixes of keys that are never placed")
	f.IntVar(&flags.Keys, "keys", 4096, "number of keys whose requests are counted")
	f.Float64Var(&flags.HalfLife, "half-life", 7, "seconds after which a read counts half")
	f.Float64Var(&flags.Every, "every", 0.1, "seconds between two decisions")
	f.Float64Var(&flags.Delay, "delay", 0.05, "seconds from a decision until all gateways apply it")
	f.BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

func runPlacement(out io.Writer, flags *placementFlags) error {
	switch {
	case flags.file == "":
		return cli.UsageError(errors.New("name a trace with --replay"))
	case flags.Keys < 1 || flags.HalfLife <= 0 || flags.Every <= 0 || flags.Delay < 0 || flags.Placement.Capacity < 1:
		return cli.UsageError(errors.New("numbers of keys, bytes and seconds are positive"))
	}
	trace, err := replay.Read(flags.file)
	if err != nil {
		return err
	}
	r := replay.Run(trace, &flags.Options)
	result := placementResult{
		File: flags.file, Reads: r.Reads, HitShare: r.HitShare, BestFixed: r.BestFixed, AllShare: r.AllShare, Adapt: r.Adapt,
		Placements: r.Placements, Removals: r.Removals, Writes: r.Writes, OwnWrites: r.OwnWrites,
		Capacity: flags.Placement.Capacity, MostBytes: r.MostBytes, Why: r.Why,
	}
	if r.BestFixed > 0 {
		result.Ratio = r.HitShare / r.BestFixed
	}
	if flags.json {
		return cli.PrintJSON(out, &result)
	}
	table := cli.NewTable(out)
	fmt.Fprintf(table,
		"reads\thit share\tbest fixed\tratio\tof all reads\tadapts in s\tplacements\tremovals\town writes\tmost bytes\n")
	fmt.Fprintf(table, "%d\t%.3f\t%.3f\t%.3f\t%.3f\t%.1f\t%d\t%d\t%d\t%d\n", r.Reads, r.HitShare, r.BestFixed,
		result.Ratio, r.AllShare, r.Adapt,
		r.Placements, r.Removals, r.OwnWrites, r.MostBytes)
	if r.Why != "" {
		fmt.Fprintf(table, "\n%s\t%s\n", flags.Explain, r.Why)
	}
	return table.Flush()
}
