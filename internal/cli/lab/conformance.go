package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	protocols "github.com/netcraq/netcraq/internal/eval/baseline/sim"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
)

type conformanceFlags struct {
	protocol string
	plane    string
	engine   string
	packets  int
	seed     uint64
	json     bool
}

// conformanceResult is the output of `netcraq conformance --json`.
type conformanceResult struct {
	Protocol string `json:"protocol"`
	Plane    string `json:"plane"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	Adapted  int    `json:"adapted,omitempty"` // cases with the results of a switch: no digests, early sessions
	Skipped  int    `json:"skipped"`
	// SkippedWhy counts the skipped cases by reason.
	SkippedWhy    map[string]int `json:"skipped_why,omitempty"`
	RandomPackets int            `json:"random_packets"`
	Seed          uint64         `json:"seed"`
}

func newConformanceCommand() *cobra.Command {
	var flags conformanceFlags
	c := &cobra.Command{
		Use:   "conformance",
		Short: cli.ShortOf("conformance"),
		Long: `Runs every case of spec/vectors on a plane and compares verdicts, packets sent, counts and state.
With --random, gives the plane and the executable specification the same random packets (valid, damaged, cut, garbage)
and compares them byte for byte; the same seed gives the same packets.

soft is a node on loopback sockets. Cases and random packets about the layers below a message are skipped. xdp is the
bytecode that nodes run, executed by the kernel (as root). p4 is the P4 program on a software switch. Features that a
switch lacks (docs/p4.md) are skipped.

With --protocol netchain or netcraq-published the command checks a node of the papers' protocols against spec/baselines.
Half of NetChain's random nodes have a SEQ of 32 bits. Sockets skip packets in transit to other nodes. On p4, NetChain's
values have at most 64 bytes, and its number of virtual groups is a power of two.`,
		Example: `  netcraq conformance --plane soft
  netcraq conformance --plane xdp --random 1000000 --seed 7
  netcraq conformance --plane xdp --protocol netchain --random 100000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runConformance(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags)
		},
	}
	c.Flags().StringVar(&flags.protocol, "protocol", string(protocols.Ours), "netcraq, or netchain or netcraq-published")
	c.Flags().StringVar(&flags.plane, "plane", "soft", "soft, xdp or p4")
	c.Flags().StringVar(&flags.engine, "engine", "", "of --plane p4: swx, or bmv2 (psa_switch in PATH, as root)")
	c.Flags().IntVar(&flags.packets, "random", 0, "number of random packets to compare")
	c.Flags().Uint64Var(&flags.seed, "seed", 1, "seed of the random packets")
	c.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	return c
}

func runConformance(ctx context.Context, out, progress io.Writer, flags *conformanceFlags) error {
	if flags.packets < 0 {
		return cli.UsageError(fmt.Errorf("--random %d: want 0 or more packets", flags.packets))
	}
	conform, err := conformanceOf(flags.protocol)
	if err == nil {
		err = chooseEngine(flags.plane, flags.engine)
	}
	if err != nil {
		return err
	}
	report, difference, err := conform(ctx, progress, flags)
	if err != nil {
		return err
	}
	result := conformanceResult{
		Protocol: flags.protocol, Plane: flags.plane, Passed: report.Passed, Failed: report.Failed, Skipped: report.Skipped,
		RandomPackets: flags.packets, Seed: flags.seed, Adapted: report.Adapted, SkippedWhy: report.Reasons(),
	}
	if difference != "" {
		result.Failed++
	}
	if flags.json {
		err = cli.PrintJSON(out, result)
	} else {
		err = printConformance(out, &result, report)
	}
	if err == nil {
		_, err = io.WriteString(progress, difference)
	}
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("the %s plane differs from the specification", flags.plane)
	}
	return err
}

// chooseEngine lets the P4 plane use the engine of a name. Without the flag, the environment chooses.
func chooseEngine(plane, engine string) error {
	switch {
	case engine == "":
		return nil
	case plane != cli.PlaneP4:
		return cli.UsageError(fmt.Errorf("--engine %s: only --plane %s has engines", engine, cli.PlaneP4))
	case engine == "swx":
		return os.Setenv(p4.EngineVariable, p4.EngineName)
	case engine == "bmv2":
		return os.Setenv(p4.EngineVariable, p4.EngineBMv2)
	}
	return cli.UsageError(fmt.Errorf("--engine %s: want swx or bmv2", engine))
}

// conformer runs all cases of a protocol on a plane, then random packets. It returns the difference
// between them, or "".
type conformer func(ctx context.Context, progress io.Writer,
	flags *conformanceFlags) (*conformance.Report, string, error)

func conformanceOf(protocol string) (conformer, error) {
	switch protocols.Protocol(protocol) {
	case protocols.Ours:
		return conformOurs, nil
	case protocols.NetChain:
		return conformNetChain, nil
	case protocols.NetCRAQPaper:
		return conformNetCRAQPaper, nil
	}
	return nil, cli.UsageError(fmt.Errorf("--protocol %s: want %s, %s (SEQ of both widths) or %s",
		protocol, protocols.Ours, protocols.NetChain, protocols.NetCRAQPaper))
}

func conformOurs(
	ctx context.Context, progress io.Writer, flags *conformanceFlags,
) (report *conformance.Report, difference string, err error) {
	target, err := conformanceTarget(flags.plane)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	cases, err := conformance.Vectors()
	if err != nil {
		return nil, "", err
	}
	var within func(chain.Options) chain.Options
	adapted := 0
	if flags.plane == cli.PlaneP4 {
		within = harness.P4Within
		if cases, adapted, err = conformance.OfSwitch(cases, false); err != nil {
			return nil, "", err
		}
	}
	if report, err = conformance.Run(ctx, target, cases); err != nil {
		return nil, "", err
	}
	report.Adapted = adapted
	found, err := conformance.Compare(ctx, target, conformance.RandomOptions{
		Packets: flags.packets, Seed: flags.seed, Report: showRandomProgress(progress, flags.packets), Within: within,
	})
	if found == nil || err != nil {
		return report, "", err
	}
	var text strings.Builder
	err = found.Write(&text)
	return report, text.String(), err
}

func conformanceTarget(plane string) (conformance.Target, error) {
	switch plane {
	case "soft":
		return harness.NewSoft()
	case "xdp":
		return harness.NewXDP()
	case cli.PlaneP4:
		return harness.NewP4(), nil
	}
	return nil, wrongPlane(plane, "soft, xdp or p4")
}

func wrongPlane(plane, known string) error {
	return cli.UsageError(fmt.Errorf("--plane %s: want %s", plane, known))
}

// progressSteps is the number of progress lines of a run.
const progressSteps = 10

func showRandomProgress(w io.Writer, packets int) func(done int) {
	told := 0
	return func(done int) {
		if step := done * progressSteps / packets; step > told {
			told = step
			fmt.Fprintf(w, "%s of %s random packets agree\n", cli.Grouped(uint64(done)), cli.Grouped(uint64(packets)))
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
	table := cli.NewTable(out)
	fmt.Fprintf(table, "protocol\tplane\tpassed\tfailed\tskipped\trandom packets\tseed\n")
	fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s\t%d\n", result.Protocol, result.Plane, result.Passed,
		result.Failed, result.Skipped,
		cli.Grouped(uint64(result.RandomPackets)), result.Seed)
	return table.Flush()
}
