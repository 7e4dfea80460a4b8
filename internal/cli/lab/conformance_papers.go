package lab

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/netchain"
	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/eval/baseline/p4"
	"github.com/netcraq/netcraq/internal/eval/baseline/soft"
	"github.com/netcraq/netcraq/internal/eval/baseline/xdp"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

func conformNetChain(ctx context.Context, progress io.Writer,
	flags *conformanceFlags) (*conformance.Report, string, error) {
	target, err := baselineTarget[netchain.State](flags.plane, soft.NewNetChainTarget, xdp.NewNetChainTarget,
		p4.NewNetChainTarget)
	if err != nil {
		return nil, "", err
	}
	draw := netchain.RandomWidths()
	if flags.plane == cli.PlaneP4 {
		draw = p4.Within(draw)
	}
	return conformBaseline(ctx, progress, flags, target, netchain.Vectors, new(netchain.Node), draw)
}

func conformNetCRAQPaper(ctx context.Context, progress io.Writer,
	flags *conformanceFlags) (*conformance.Report, string, error) {
	target, err := baselineTarget[netcraqpaper.State](flags.plane, soft.NewNetCRAQPaperTarget, xdp.NewNetCRAQPaperTarget,
		p4.NewNetCRAQPaperTarget)
	if err != nil {
		return nil, "", err
	}
	return conformBaseline(ctx, progress, flags, target, netcraqpaper.Vectors, new(netcraqpaper.Node),
		netcraqpaper.Random())
}

// baselineTarget opens the plane's node of a protocol with states of type S.
func baselineTarget[S any, Soft, XDP, P4 baseline.Target[S]](
	plane string, onSockets func() (Soft, error), inKernel func() (XDP, error), onSwitch func() (P4, error),
) (baseline.Target[S], error) {
	switch plane {
	case "soft":
		return onSockets()
	case "xdp":
		return inKernel()
	case cli.PlaneP4:
		return onSwitch()
	}
	return nil, wrongPlane(plane, "soft, xdp or p4")
}

// conformBaseline is a [conformer] for a protocol of the papers; reference is its state machine. It
// closes the target.
func conformBaseline[S any](ctx context.Context, progress io.Writer, flags *conformanceFlags, target baseline.Target[S],
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
	err = baseline.CompareMany(ctx, reference, target, draw, flags.seed, flags.packets,
		showRandomProgress(progress, flags.packets))
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
