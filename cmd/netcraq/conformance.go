package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/dataplane/conformance"
	"github.com/netcraq/netcraq/internal/dataplane/soft"
	"github.com/netcraq/netcraq/internal/dataplane/xdp"
)

type conformanceFlags struct {
	plane   string
	packets int
	seed    uint64
	json    bool
}

// conformanceResult is what `netcraq conformance --json` prints.
type conformanceResult struct {
	Plane         string `json:"plane"`
	Passed        int    `json:"passed"`
	Failed        int    `json:"failed"`
	Skipped       int    `json:"skipped"`
	RandomPackets int    `json:"random_packets"`
	Seed          uint64 `json:"seed"`
}

func newConformanceCommand() *cobra.Command {
	var flags conformanceFlags
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Hold a data plane to the specification: all vectors, then random packets",
		Long: `Runs every case of spec/vectors on a plane and compares verdicts, packets sent, counts and state.
With --random, gives the plane and the executable specification the same random packets (valid, damaged, cut, garbage)
and compares them byte for byte; the same seed gives the same packets.

soft is a node on loopback sockets; what is below a message is not its business, and such cases are skipped and random
packets of that kind passed over. xdp is the bytecode that nodes run, executed by the kernel (as root).`,
		Example: `  netcraq conformance --plane soft
  netcraq conformance --plane xdp --random 1000000 --seed 7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runConformance(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags)
		},
	}
	c.Flags().StringVar(&flags.plane, "plane", "soft", "soft or xdp")
	c.Flags().IntVar(&flags.packets, "random", 0, "how many random packets to compare")
	c.Flags().Uint64Var(&flags.seed, "seed", 1, "seed of the random packets")
	c.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

func runConformance(ctx context.Context, out, progress io.Writer, flags *conformanceFlags) (err error) {
	if flags.packets < 0 {
		return usageError(fmt.Errorf("--random %d: 0 or more packets are wanted", flags.packets))
	}
	target, err := conformanceTarget(flags.plane)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := target.Close(); err == nil {
			err = closeErr
		}
	}()
	cases, err := conformance.Vectors()
	if err != nil {
		return err
	}
	report, err := conformance.Run(ctx, target, cases)
	if err != nil {
		return err
	}
	result := conformanceResult{
		Plane: flags.plane, Passed: report.Passed, Failed: report.Failed, Skipped: report.Skipped,
		RandomPackets: flags.packets, Seed: flags.seed,
	}
	difference, err := conformance.Compare(ctx, target, conformance.RandomOptions{
		Packets: flags.packets, Seed: flags.seed, Report: showRandomProgress(progress, flags.packets),
	})
	if err != nil {
		return err
	}
	if difference != nil {
		result.Failed++
	}
	if flags.json {
		err = printJSON(out, result)
	} else {
		err = printConformance(out, &result, report)
	}
	if difference != nil && err == nil {
		err = difference.Write(progress)
	}
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("the %s plane does not do what the specification says", flags.plane)
	}
	return err
}

func conformanceTarget(plane string) (conformance.Target, error) {
	switch plane {
	case "soft":
		return soft.NewMachine()
	case "xdp":
		return xdp.NewMachine()
	}
	return nil, usageError(fmt.Errorf("--plane %s: want soft or xdp", plane))
}

// progressSteps is how often a run tells how far it is.
const progressSteps = 10

func showRandomProgress(w io.Writer, packets int) func(done int) {
	told := 0
	return func(done int) {
		if step := done * progressSteps / packets; step > told {
			told = step
			fmt.Fprintf(w, "%s of %s random packets agree\n", grouped(uint64(done)), grouped(uint64(packets)))
		}
	}
}

func printConformance(out io.Writer, result *conformanceResult, report *conformance.Report) error {
	for _, f := range report.Failures {
		fmt.Fprintf(out, "FAILED  %s\n  %s\n%s\n", f.Case, f.Packet, f.Why)
	}
	for _, why := range report.SkippedWhy {
		fmt.Fprintf(out, "skipped %s\n", why)
	}
	table := newTable(out)
	fmt.Fprintf(table, "plane\tpassed\tfailed\tskipped\trandom packets\tseed\n")
	fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%d\n", result.Plane, result.Passed, result.Failed, result.Skipped,
		grouped(uint64(result.RandomPackets)), result.Seed)
	return table.Flush()
}
