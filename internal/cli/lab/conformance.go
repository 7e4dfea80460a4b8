package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
)

// ConformanceFlags are the flags of `netcraq conformance`.
type ConformanceFlags struct {
	Protocol string
	Plane    string
	Target   string
	Identity string
	Packets  int
	Seed     uint64
	JSON     bool
}

// Add adds the flags to a command, with the fields' values as defaults.
func (flags *ConformanceFlags) Add(f *pflag.FlagSet, protocols, planes string) {
	f.StringVar(&flags.Protocol, "protocol", flags.Protocol, protocols)
	f.StringVar(&flags.Plane, "plane", flags.Plane, planes)
	f.StringVar(&flags.Target, "target", "",
		"of --plane p4: `address` of a running switch to drive by P4Runtime (default: start an engine)")
	f.StringVar(&flags.Identity, "identity", "",
		"of --target: directory of a certificate with the role node or admin (default: no encryption)")
	f.IntVar(&flags.Packets, "random", 0, "number of random packets to compare")
	f.Uint64Var(&flags.Seed, "seed", 1, "seed of the random packets")
	f.BoolVar(&flags.JSON, "json", false, "print one JSON object")
}

// ConformanceResult is the output of `netcraq conformance --json`.
type ConformanceResult struct {
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
	flags := ConformanceFlags{Protocol: ours, Plane: "soft"}
	c := &cobra.Command{
		Use:   "conformance",
		Short: cli.ShortOf("conformance"),
		Long: `Runs every case of spec/vectors on a plane and compares verdicts, packets sent, counts and state.
With --random, gives the plane and the executable specification the same random packets (valid, damaged, cut, garbage)
and compares them byte for byte; the same seed gives the same packets.

soft is a node on loopback sockets. Cases and random packets about the layers below a message are skipped. xdp is the
bytecode that nodes run, executed by the kernel (as root). p4 is the P4 program on a software switch. Features that a
switch lacks (docs/p4.md) are skipped.

With --protocol netchain or netcraq-published the command checks a node of the papers' protocols, which run as xdp (the
default then) and as p4, against eval/spec. Half of NetChain's random nodes have a SEQ of 32 bits. On p4, NetChain's
values have at most 64 bytes, and its number of virtual groups is a power of two.`,
		Example: `  netcraq conformance --plane soft
  netcraq conformance --plane xdp --random 1000000 --seed 7
  netcraq conformance --plane xdp --protocol netchain --random 100000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.Protocol != ours {
				return cli.Pass(c, cli.BenchName)
			}
			return RunConformance(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags, conform)
		},
	}
	flags.Add(c.Flags(), "netcraq, or netchain or netcraq-published", "soft, xdp or p4")
	return c
}

// RunConformance checks a plane and prints the result.
func RunConformance(ctx context.Context, out, progress io.Writer, flags *ConformanceFlags, conform Conformer) error {
	if flags.Packets < 0 {
		return cli.UsageError(fmt.Errorf("--random %d: want 0 or more packets", flags.Packets))
	}
	if err := flags.checkTarget(); err != nil {
		return err
	}
	report, difference, err := conform(ctx, progress, flags)
	if err != nil {
		return err
	}
	result := ConformanceResult{
		Protocol: flags.Protocol, Plane: flags.Plane, Passed: report.Passed, Failed: report.Failed, Skipped: report.Skipped,
		RandomPackets: flags.Packets, Seed: flags.Seed, Adapted: report.Adapted, SkippedWhy: report.Reasons(),
	}
	if difference != "" {
		result.Failed++
	}
	if flags.JSON {
		err = cli.PrintJSON(out, result)
	} else {
		err = printConformance(out, &result, report)
	}
	if err == nil {
		_, err = io.WriteString(progress, difference)
	}
	if err == nil && result.Failed > 0 {
		err = fmt.Errorf("the %s plane differs from the specification", flags.Plane)
	}
	return err
}

// checkTarget refuses a target that the flags do not use.
func (flags *ConformanceFlags) checkTarget() error {
	if flags.Identity != "" && flags.Target == "" {
		return cli.UsageError(fmt.Errorf("--identity %s: it is for --target", flags.Identity))
	}
	if flags.Target != "" && (flags.Plane != cli.PlaneP4 || flags.Protocol != ours) {
		return cli.UsageError(fmt.Errorf("--target %s: it is for --plane %s and --protocol %s",
			flags.Target, cli.PlaneP4, ours))
	}
	return nil
}

// Conformer runs all cases of a protocol on a plane, then random packets. It returns the difference
// between them, or "".
type Conformer func(ctx context.Context, progress io.Writer,
	flags *ConformanceFlags) (*conformance.Report, string, error)

// conform is a [Conformer] for this project's protocol.
func conform(
	ctx context.Context, progress io.Writer, flags *ConformanceFlags,
) (report *conformance.Report, difference string, err error) {
	target, err := conformanceTarget(ctx, flags)
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
	if flags.Plane == cli.PlaneP4 {
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
		Packets: flags.Packets, Seed: flags.Seed, Report: ShowRandomProgress(progress, flags.Packets), Within: within,
	})
	if found == nil || err != nil {
		return report, "", err
	}
	var text strings.Builder
	err = found.Write(&text)
	return report, text.String(), err
}

func conformanceTarget(ctx context.Context, flags *ConformanceFlags) (conformance.Target, error) {
	switch flags.Plane {
	case "soft":
		return harness.NewSoft()
	case "xdp":
		return harness.NewXDP()
	case cli.PlaneP4:
		if flags.Target == "" {
			return harness.NewP4(), nil
		}
		identity, err := cli.LoadIdentity(flags.Identity)
		if err != nil {
			return nil, err
		}
		return harness.NewP4On(func() (p4.Switch, error) {
			return cli.DialSwitch(ctx, flags.Target, cli.SwitchDevice, identity)
		}), nil
	}
	return nil, WrongPlane(flags.Plane, "soft, xdp or p4")
}

// WrongPlane returns the error of a plane that is none of the known.
func WrongPlane(plane, known string) error {
	return cli.UsageError(fmt.Errorf("--plane %s: want %s", plane, known))
}

// progressSteps is the number of progress lines of a run.
const progressSteps = 10

// ShowRandomProgress returns a function that shows how many random packets agree.
func ShowRandomProgress(w io.Writer, packets int) func(done int) {
	told := 0
	return func(done int) {
		if step := done * progressSteps / packets; step > told {
			told = step
			fmt.Fprintf(w, "%s of %s random packets agree\n", cli.Grouped(uint64(done)), cli.Grouped(uint64(packets)))
		}
	}
}

func printConformance(out io.Writer, result *ConformanceResult, report *conformance.Report) error {
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
