package leases

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Round is one round on both sides, and with a server that answers at once.
type Round struct {
	Gateway Window `json:"gateway"`
	Etcd    Window `json:"etcd"`
	Null    Window `json:"null"`
}

// Result compares both sides. Rates, latencies and the ratio are medians of the rounds.
type Result struct {
	UpdatesPerS     float64 `json:"updates_per_s"`
	EtcdUpdatesPerS float64 `json:"etcd_updates_per_s"`
	Ratio           float64 `json:"ratio"`
	// CeilingPerS is the rate of the same clients with a server that answers at once, and Ceiling its ratio to etcd's.
	CeilingPerS float64 `json:"ceiling_per_s"`
	Ceiling     float64 `json:"ceiling_ratio"`
	// CPUus and EtcdCPUus are the CPU time of the servers for each renewal, in microseconds: the gateways and the chain's
	// nodes, and etcd's members. CPURatio is etcd's by the gateways'. ClientCPUus is that of the clients.
	CPUus        float64  `json:"cpu_us"`
	EtcdCPUus    float64  `json:"etcd_cpu_us"`
	CPURatio     float64  `json:"cpu_ratio"`
	ClientCPUus  float64  `json:"client_cpu_us"`
	P99Ms        float64  `json:"p99_ms"`
	EtcdP99Ms    float64  `json:"etcd_p99_ms"`
	Lost         int64    `json:"lost"`           // acknowledged renewals of the gateways, the kill included
	Failed       int64    `json:"failed"`         // renewals of unknown outcome: at the gateways, the kill included
	LongestGapMs float64  `json:"longest_gap_ms"` // without an acknowledged renewal while the active gateway is killed
	Killed       Window   `json:"killed"`         // the load during which it is
	Rounds       []Round  `json:"rounds"`
	Nodes        int      `json:"nodes"`
	Workers      int      `json:"workers"`
	ValueBytes   int      `json:"value_bytes"`
	Settings     []string `json:"settings"`
}

func newResult(o *Options, etcd []string) *Result {
	return &Result{
		Nodes: o.Nodes, Workers: o.Workers, ValueBytes: o.ValueBytes,
		Settings: []string{"etcd: " + strings.Join(etcd, ", "), "chain: " + o.Chain, "two memory gateways, processes"},
	}
}

// summarise computes the medians and sums.
func (r *Result) summarise() {
	median := func(of func(*Round) float64) float64 {
		values := make([]float64, len(r.Rounds))
		for i := range r.Rounds {
			values[i] = of(&r.Rounds[i])
		}
		return statistics.Median(values)
	}
	r.UpdatesPerS = median(func(p *Round) float64 { return p.Gateway.UpdatesPerS })
	r.EtcdUpdatesPerS = median(func(p *Round) float64 { return p.Etcd.UpdatesPerS })
	r.Ratio = median(func(p *Round) float64 { return p.Gateway.UpdatesPerS / p.Etcd.UpdatesPerS })
	r.P99Ms = median(func(p *Round) float64 { return p.Gateway.P99Ms })
	r.EtcdP99Ms = median(func(p *Round) float64 { return p.Etcd.P99Ms })
	r.CeilingPerS = median(func(p *Round) float64 { return p.Null.UpdatesPerS })
	r.Ceiling = median(func(p *Round) float64 { return p.Null.UpdatesPerS / p.Etcd.UpdatesPerS })
	r.CPUus = median(func(p *Round) float64 { return p.Gateway.CPUus })
	r.EtcdCPUus = median(func(p *Round) float64 { return p.Etcd.CPUus })
	r.CPURatio = median(func(p *Round) float64 { return p.Etcd.CPUus / p.Gateway.CPUus })
	r.ClientCPUus = median(func(p *Round) float64 { return p.Gateway.ClientCPUus })
	r.LongestGapMs = r.Killed.LongestGapMs
	r.Lost, r.Failed = r.Killed.Lost, r.Killed.Failed
	for i := range r.Rounds {
		r.Lost += r.Rounds[i].Gateway.Lost
		r.Failed += r.Rounds[i].Gateway.Failed
	}
}

// Table returns a row for each store, and one for the load during which the active gateway was killed.
func (r *Result) Table() ([]string, [][]string) {
	whole := func(v float64) string { return fmt.Sprintf("%.0f", v) }
	row := func(name string, rate float64, p99, cpu, gap string) []string {
		return []string{name, whole(rate), p99, cpu, gap}
	}
	ms := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	return []string{"store", "renewals/s", "p99 ms", "CPU us/renewal", "longest gap ms"}, [][]string{
		row("memory gateways", r.UpdatesPerS, ms(r.P99Ms), whole(r.CPUus), "-"),
		row("etcd", r.EtcdUpdatesPerS, ms(r.EtcdP99Ms), whole(r.EtcdCPUus), "-"),
		row("answers at once", r.CeilingPerS, "-", "-", "-"),
		row("gateway killed", r.Killed.UpdatesPerS, ms(r.Killed.P99Ms), "-", whole(r.LongestGapMs)),
	}
}

// Summary describes the loads.
func (r *Result) Summary() string {
	return fmt.Sprintf("%d leases of %d bytes, %d renewals under way: %.2f times etcd's rate, the median of %d "+
		"interleaved rounds.\n"+
		"With a server that answers at once the clients reach %.2f times etcd's rate. They take %.0f us of CPU time for a renewal.\n"+
		"The gateways and the chain take %.2f times less CPU time than etcd.\n"+
		"Acknowledged renewals lost: %d. Renewals of unknown outcome: %d.\n%s.",
		r.Nodes, r.ValueBytes, r.Workers, r.Ratio, len(r.Rounds),
		r.Ceiling, r.ClientCPUus, r.CPURatio, r.Lost, r.Failed, strings.Join(r.Settings, "; "))
}
