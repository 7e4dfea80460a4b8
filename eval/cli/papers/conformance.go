package papers

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/eval/baseline/p4"
	"github.com/netcraq/netcraq/eval/baseline/sim"
	"github.com/netcraq/netcraq/eval/baseline/xdp"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

func newConformanceCommand() *cobra.Command {
	flags := lab.ConformanceFlags{Protocol: string(sim.NetChain), Plane: "xdp"}
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Check a data plane of the papers' protocols against eval/spec: all cases, then random packets",
		Long: `Runs every case of eval/spec on a plane and compares packets, counts and state. With --random, gives the plane and the
pure machine of the protocol the same random packets and compares them.`,
		Example: `  netcraq conformance --protocol netchain --random 100000
  netcraq conformance --protocol netcraq-published --plane p4`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			conform, err := conformanceOf(flags.Protocol)
			if err != nil {
				return err
			}
			return lab.RunConformance(c.Context(), c.OutOrStdout(), c.ErrOrStderr(), &flags, conform)
		},
	}
	flags.Add(c.Flags(), "netchain or netcraq-published", "xdp or p4")
	return c
}

func conformanceOf(protocol string) (lab.Conformer, error) {
	switch sim.Protocol(protocol) {
	case sim.NetChain:
		return conformNetChain, nil
	case sim.NetCRAQPaper:
		return conformNetCRAQPaper, nil
	}
	return nil, cli.UsageError(fmt.Errorf("--protocol %s: want netcraq, %s (SEQ of both widths) or %s",
		protocol, sim.NetChain, sim.NetCRAQPaper))
}

func conformNetChain(ctx context.Context, progress io.Writer,
	flags *lab.ConformanceFlags) (*conformance.Report, string, error) {
	target, err := baselineTarget[netchain.State](flags.Plane, xdp.NewNetChainTarget, p4.NewNetChainTarget)
	if err != nil {
		return nil, "", err
	}
	draw := netchain.RandomWidths()
	if flags.Plane == cli.PlaneP4 {
		draw = p4.Within(draw)
	}
	return conformBaseline(ctx, progress, flags, target, netchain.Vectors, new(netchain.Node), draw)
}

func conformNetCRAQPaper(ctx context.Context, progress io.Writer,
	flags *lab.ConformanceFlags) (*conformance.Report, string, error) {
	target, err := baselineTarget[netcraqpaper.State](flags.Plane, xdp.NewNetCRAQPaperTarget,
		p4.NewNetCRAQPaperTarget)
	if err != nil {
		return nil, "", err
	}
	return conformBaseline(ctx, progress, flags, target, netcraqpaper.Vectors, new(netcraqpaper.Node),
		netcraqpaper.Random())
}

// baselineTarget opens the plane's node of a protocol with states of type S.
func baselineTarget[S any, XDP, P4 baseline.Target[S]](
	plane string, inKernel func() (XDP, error), onSwitch func() (P4, error),
) (baseline.Target[S], error) {
	switch plane {
	case "xdp":
		return inKernel()
	case cli.PlaneP4:
		return onSwitch()
	}
	return nil, lab.WrongPlane(plane, "xdp or p4")
}

// conformBaseline is a [lab.Conformer] for a protocol of the papers; reference is its state machine. It
// closes the target.
func conformBaseline[S any](ctx context.Context, progress io.Writer, flags *lab.ConformanceFlags, target baseline.Target[S],
	vectors func() ([]baseline.Case[S], error), reference baseline.Target[S], draw baseline.Draw[S],
) (report *conformance.Report, difference string, err error) {
	defer func() { err = errors.Join(err, target.Close()) }()
	cases, err := vectors()
	if err != nil {
		return nil, "", err
	}
	if report, err = runBaselineCases(ctx, target, cases); err != nil {
		return nil, "", err
	}
	err = baseline.CompareMany(ctx, reference, target, draw, flags.Seed, flags.Packets,
		lab.ShowRandomProgress(progress, flags.Packets))
	if mismatch := (*baseline.Mismatch)(nil); errors.As(err, &mismatch) {
		return report, err.Error() + "\n", nil
	}
	return report, "", err
}

func runBaselineCases[S any](ctx context.Context, target baseline.Target[S],
	cases []baseline.Case[S]) (*conformance.Report, error) {
	report := new(conformance.Report)
	for i := range cases {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := baseline.Run(target, &cases[i])
		var mismatch *baseline.Mismatch
		switch {
		case errors.Is(err, baseline.ErrUnsupported):
			report.Skipped++
			report.SkippedWhy = append(report.SkippedWhy, err.Error())
		case errors.As(err, &mismatch):
			report.Failed++
			report.Failures = append(report.Failures, conformance.Failure{Case: cases[i].Name,
				Packet: mismatch.Packet, Why: mismatch.Why})
		case err != nil:
			return nil, fmt.Errorf("%s plane: %w", target.Name(), err)
		default:
			report.Passed++
		}
	}
	return report, nil
}
