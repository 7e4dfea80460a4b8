package leases

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/internal/eval/statistics"
)

// Pair is one round on both sides.
type Pair struct {
	Gateway Window `json:"gateway"`
	Etcd    Window `json:"etcd"`
}

// Result compares both sides. Rates, latencies and the ratio are medians of the rounds.
type Result struct {
	UpdatesPerS     float64  `json:"updates_per_s"`
	EtcdUpdatesPerS float64  `json:"etcd_updates_per_s"`
	Ratio           float64  `json:"ratio"`
	P99Ms           float64  `json:"p99_ms"`
	EtcdP99Ms       float64  `json:"etcd_p99_ms"`
	Lost            int64    `json:"lost"`           // acknowledged renewals of the gateways, the kill included
	Failed          int64    `json:"failed"`         // renewals of unknown outcome: at the gateways, the kill included
	LongestGapMs    float64  `json:"longest_gap_ms"` // without an acknowledged renewal while the active gateway is killed
	Killed          Window   `json:"killed"`         // the load during which it is
	Rounds          []Pair   `json:"rounds"`
	Nodes           int      `json:"nodes"`
	Workers         int      `json:"workers"`
	ValueBytes      int      `json:"value_bytes"`
	Settings        []string `json:"settings"`
}

func newResult(o *Options, etcd []string) *Result {
	return &Result{
		Nodes: o.Nodes, Workers: o.Workers, ValueBytes: o.ValueBytes,
		Settings: []string{"etcd: " + strings.Join(etcd, ", "), "chain: " + o.Chain, "two memory gateways, processes"},
	}
}

// summarise computes the medians and sums.
func (r *Result) summarise() {
	median := func(of func(*Pair) float64) float64 {
		values := make([]float64, len(r.Rounds))
		for i := range r.Rounds {
			values[i] = of(&r.Rounds[i])
		}
		return statistics.Median(values)
	}
	r.UpdatesPerS = median(func(p *Pair) float64 { return p.Gateway.UpdatesPerS })
	r.EtcdUpdatesPerS = median(func(p *Pair) float64 { return p.Etcd.UpdatesPerS })
	r.Ratio = median(func(p *Pair) float64 { return p.Gateway.UpdatesPerS / p.Etcd.UpdatesPerS })
	r.P99Ms = median(func(p *Pair) float64 { return p.Gateway.P99Ms })
	r.EtcdP99Ms = median(func(p *Pair) float64 { return p.Etcd.P99Ms })
	r.LongestGapMs = r.Killed.LongestGapMs
	r.Lost, r.Failed = r.Killed.Lost, r.Killed.Failed
	for i := range r.Rounds {
		r.Lost += r.Rounds[i].Gateway.Lost
		r.Failed += r.Rounds[i].Gateway.Failed
	}
}

// Table returns a row for each store, and one for the load during which the active gateway was killed.
func (r *Result) Table() ([]string, [][]string) {
	row := func(name string, rate, p99 float64, gap string) []string {
		return []string{name, fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f", p99), gap}
	}
	return []string{"store", "renewals/s", "p99 ms", "longest gap ms"}, [][]string{
		row("memory gateways", r.UpdatesPerS, r.P99Ms, "-"),
		row("etcd", r.EtcdUpdatesPerS, r.EtcdP99Ms, "-"),
		row("gateway killed", r.Killed.UpdatesPerS, r.Killed.P99Ms, fmt.Sprintf("%.0f", r.LongestGapMs)),
	}
}

// Summary describes the loads.
func (r *Result) Summary() string {
	return fmt.Sprintf("%d leases of %d bytes, %d renewals under way: %.2f times etcd's rate, the median of %d "+
		"interleaved rounds.\n"+
		"Acknowledged renewals lost: %d. Renewals of unknown outcome: %d.\n%s.",
		r.Nodes, r.ValueBytes, r.Workers, r.Ratio, len(r.Rounds), r.Lost, r.Failed, strings.Join(r.Settings, "; "))
}
