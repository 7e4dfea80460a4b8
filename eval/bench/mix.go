package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// MixOptions configure a measurement of mixed reads and writes.
type MixOptions struct {
	NodeOptions
	Windows
	Nodes      int
	Target     int     // node that receives all requests; 0 is the head
	WriteShare float64 // of the requests
	Progress   Progress
}

// MixResult is the throughput of a chain under reads and writes of the same keys.
type MixResult struct {
	Subject
	RequestsPerS      float64   `json:"requests_per_s"`
	PacketsPerRequest float64   `json:"packets_per_request"` // on all links, request and answer included
	HopsMax           int       `json:"hops_max"`            // most links that a request and its answer crossed
	WriteShare        float64   `json:"write_share"`
	Target            int       `json:"target"`
	Nodes             int       `json:"nodes"`
	Sent              uint64    `json:"sent"`
	Lost              uint64    `json:"lost"`
	Wrong             uint64    `json:"wrong"`
	Keys              int       `json:"keys"`
	ValueBytes        int       `json:"value_bytes"`
	Rounds            []float64 `json:"rounds"` // requests per second
	Host              Host      `json:"machine"`
}

func (o *MixOptions) check() error {
	if err := validate(&o.NodeOptions, &o.Windows); err != nil {
		return err
	}
	switch {
	case o.WriteShare < 0 || o.WriteShare > 1:
		return wrongOption("--write-share: 0 to 1, not %v", o.WriteShare)
	case o.Target < 0 || o.Target >= o.Nodes:
		return wrongOption("--target: 0 (the head) to %d (the tail), not %d", o.Nodes-1, o.Target)
	}
	return nil
}

// Mix measures mixed reads and writes at one node of a chain. The node forwards requests to the
// head or tail as the protocol requires.
func Mix(ctx context.Context, o MixOptions) (*MixResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, keys, err := newFilledMesh(ctx, o.Nodes, &o.NodeOptions, o.Progress)
	if err != nil {
		return nil, err
	}
	defer m.undo.run()
	load, err := newLoad(&request{
		op: wire.OpRead, writeShare: o.WriteShare, valueBytes: o.ValueBytes, keys: o.order(keys),
	}, m.ways[o.Target], m.genPorts()...)
	if err != nil {
		return nil, err
	}
	m.undo.add(load.close)
	runners := []contestant{{name: fmt.Sprintf("node %d of %d", o.Target, o.Nodes), load: load}}
	if err := runners[0].prepare(ctx); err != nil {
		return nil, err
	}
	before, err := m.packets()
	if err != nil {
		return nil, err
	}
	rates, err := o.take(ctx, runners, o.Progress)
	if err != nil {
		return nil, err
	}
	after, err := m.packets()
	if err != nil {
		return nil, err
	}
	total := runners[0].total
	return &MixResult{
		RequestsPerS: statistics.Median(rates[0]), PacketsPerRequest: float64(after-before) / float64(total.OK), HopsMax: total.HopsMax,
		WriteShare: o.WriteShare, Target: o.Target, Nodes: o.Nodes,
		Sent: total.Sent, Lost: total.Lost(), Wrong: total.Wrong,
		Subject: m.nodes[0].subject(), Keys: o.Keys, ValueBytes: o.ValueBytes, Rounds: rates[0], Host: ThisHost(),
	}, nil
}

// Table returns one row per round.
func (r *MixResult) Table() ([]string, [][]string) {
	var rows [][]string
	for i, rate := range r.Rounds {
		rows = append(rows, []string{fmt.Sprint(i + 1), count(rate)})
	}
	return []string{"round", "requests/s"}, append(rows, []string{"median", count(r.RequestsPerS)})
}

// Summary states the packets and hops per request.
func (r *MixResult) Summary() string {
	return fmt.Sprintf("%.1f %% writes to node %d of a chain of %d, %d keys of %d bytes, plane %s:\n"+
		"%.2f packets per request on all links, at most %d hops until an answer; %d requests, %d wrong, %d lost.\n%v",
		100*r.WriteShare, r.Target, r.Nodes, r.Keys, r.ValueBytes, r.describe(), r.PacketsPerRequest, r.HopsMax,
		r.Sent, r.Wrong, r.Lost, r.Host)
}
