package papers

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/bench"
	"github.com/netcraq/netcraq/internal/figure"
	"github.com/netcraq/netcraq/internal/plot"
)

func netcraqDistance() *figure.Spec {
	return &figure.Spec{
		Name: "netcraq-distance", Title: "Reads by the distance from the tail",
		Source: figure.Source{Paper: "NetCRAQ, figure 3", Reports: ""},
		X:      figure.Axis{Label: "links between the node asked and the tail"},
		Panels: []figure.Panel{{Metric: "reads_per_s", Label: "reads/s", Unit: "reads/s"}},
		Series: []figure.Series{{Name: "NetCRAQ", Role: plot.Ours}},
		Needs:  figure.Needs{Root: true},
		Quick:  figure.Plan{Xs: []float64{0, 3}, Rounds: 2, Turn: 300 * time.Millisecond, Budget: 15 * time.Second},
		Full:   figure.Plan{Xs: []float64{0, 1, 2, 3}, Rounds: 9, Turn: time.Second, Budget: 130 * time.Second},
		Open:   func(context.Context, figure.Env) (figure.Rig, error) { return mixRig{}, nil },
	}
}

type mixRig struct{}

func (mixRig) Measure(ctx context.Context, cell figure.Cell, turn time.Duration) (figure.Sample, error) {
	r, err := bench.Mix(ctx, bench.MixOptions{
		NodeOptions: bench.NodeOptions{Plane: "xdp", Mode: "auto", Keys: 1000, ValueBytes: 16}, Turns: bench.Turns{Seconds: turn.Seconds(), Rounds: 1},
		Nodes: 4, Target: 3 - int(cell.X),
	})
	if err != nil {
		return figure.Sample{}, err
	}
	return figure.Sample{Values: map[string]float64{"reads_per_s": r.RequestsPerS}}, nil
}

func (mixRig) Settings() []string { return nil }
func (mixRig) Close()             {}
