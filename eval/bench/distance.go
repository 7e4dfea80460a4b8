package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// DistanceOptions configure a measurement of reads at every node of a chain.
type DistanceOptions struct {
	NodeOptions
	Windows
	Nodes    int
	Progress Progress
}

// DistanceResult is the throughput of clean reads by the distance between the node asked and the
// tail.
type DistanceResult struct {
	Subject
	Rows       []DistanceRow `json:"rows"`
	Spread     float64       `json:"spread"` // (fastest - slowest) / fastest
	Lost       uint64        `json:"lost"`
	Wrong      uint64        `json:"wrong"`
	Keys       int           `json:"keys"`
	ValueBytes int           `json:"value_bytes"`
	Host       Host          `json:"machine"`
}

// DistanceRow is one node of the chain.
type DistanceRow struct {
	Distance  int     `json:"distance"` // links of the chain between the node and the tail
	ReadsPerS float64 `json:"reads_per_s"`
}

// Distance measures reads of clean objects at every node of a chain. Each node has its own
// generator.
func Distance(ctx context.Context, o DistanceOptions) (*DistanceResult, error) {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return nil, err
	}
	m, keys, err := newFilledMesh(ctx, o.Nodes, &o.NodeOptions, o.Progress)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	runners := make([]contestant, o.Nodes)
	for i := range runners {
		r := &request{op: wire.OpRead, valueBytes: o.ValueBytes, versionMax: fillPasses, keys: o.order(keys)}
		l, err := newLoad(r, m.ways[i], m.ways[i].from)
		if err != nil {
			return nil, err
		}
		m.undo.add(l.close)
		runners[i] = contestant{name: fmt.Sprintf("the node %d from the tail", o.Nodes-1-i), load: l}
		if err := runners[i].prepare(ctx); err != nil {
			return nil, err
		}
	}
	rates, err := o.take(ctx, runners, o.Progress)
	if err != nil {
		return nil, err
	}
	return distanceResult(&o, m.nodes[0].subject(), runners, rates), nil
}

func distanceResult(o *DistanceOptions, subject Subject, runners []contestant, rates [][]float64) *DistanceResult {
	r := &DistanceResult{Subject: subject, Keys: o.Keys, ValueBytes: o.ValueBytes, Host: ThisHost()}
	slowest, fastest := 0.0, 0.0
	for i := len(runners) - 1; i >= 0; i-- {
		rate := statistics.Median(rates[i])
		r.Rows = append(r.Rows, DistanceRow{Distance: len(runners) - 1 - i, ReadsPerS: rate})
		if slowest == 0 || rate < slowest {
			slowest = rate
		}
		fastest = max(fastest, rate)
		r.Lost += runners[i].total.Lost()
		r.Wrong += runners[i].total.Wrong
	}
	r.Spread = (fastest - slowest) / fastest
	return r
}

// Table returns one row per node.
func (r *DistanceResult) Table() ([]string, [][]string) {
	var rows [][]string
	for _, x := range r.Rows {
		rows = append(rows, []string{fmt.Sprint(x.Distance), count(x.ReadsPerS)})
	}
	return []string{"distance from tail", "reads/s"}, rows
}

// Summary states the difference between the slowest and the fastest node.
func (r *DistanceResult) Summary() string {
	return fmt.Sprintf("%d keys of %d bytes on plane %s: slowest and fastest differ by %.1f %%; %d wrong, %d lost.\n%v",
		r.Keys, r.ValueBytes, r.describe(), 100*r.Spread, r.Wrong, r.Lost, r.Host)
}
