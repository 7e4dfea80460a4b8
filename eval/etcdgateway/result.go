package etcdgateway

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Pair is one load in one round, on both sides.
type Pair struct {
	Gateway Window `json:"gateway"`
	Etcd    Window `json:"etcd"`
}

// Load is the result of one load: medians over the rounds, and of the rounds' ratios.
type Load struct {
	Name     string  `json:"name"`
	About    string  `json:"about"`
	Gateway  Window  `json:"gateway"`
	Etcd     Window  `json:"etcd"`
	Ratio    float64 `json:"ratio"`     // of the rates, gateway to etcd
	P50Ratio float64 `json:"p50_ratio"` // of the medians
	Rounds   []Pair  `json:"rounds"`
}

// Ratios compare both sides as one kind of client saw them.
type Ratios struct {
	HotRangeRatio     float64 `json:"hot_range_ratio"`
	HotP50Ratio       float64 `json:"hot_p50_ratio"`
	ZipfRangeRatio    float64 `json:"zipf_range_ratio"`
	ProbeRatio        float64 `json:"probe_ratio"`
	PutRatio          float64 `json:"put_ratio"`
	TxnRatio          float64 `json:"txn_ratio"`
	PlacedPutP50Ratio float64 `json:"placed_put_p50_ratio"`
	Mixed1Ratio       float64 `json:"mixed_1_ratio"`
	Mixed10Ratio      float64 `json:"mixed_10_ratio"`
	Mixed50Ratio      float64 `json:"mixed_50_ratio"`
	Loads             []Load  `json:"loads"`
}

// Result compares both sides.
type Result struct {
	Ratios                // with etcd's own client
	Frames       Ratios   `json:"frames"` // with a client that costs little: see [etcdload.FrameConn]
	WatchAddedMs float64  `json:"watch_added_ms"`
	HitShare     float64  `json:"hit_share"`    // of the Zipf load
	NearbyShare  float64  `json:"nearby_share"` // of the Zipf load
	Watch        Watch    `json:"watch"`
	Clients      int      `json:"clients"`
	Conns        int      `json:"conns"`
	ValueBytes   int      `json:"value_bytes"`
	Seed         uint64   `json:"seed"`
	Settings     []string `json:"settings"`
	delays       []float64
}

func newResult(o *Options, etcd []string) *Result {
	r := &Result{
		Clients: o.Clients, Conns: o.Conns, ValueBytes: o.ValueBytes, Seed: o.Seed,
		Settings: []string{"etcd: " + strings.Join(etcd, ", "), "chain: " + o.Chain, "one gateway, a process"},
	}
	for _, l := range o.loads() {
		r.Loads = append(r.Loads, Load{Name: l.Name, About: l.About})
		r.Frames.Loads = append(r.Frames.Loads, Load{Name: l.Name, About: l.About})
	}
	return r
}

func (r *Result) summarise() {
	r.Ratios.summarise()
	r.Frames.summarise()
	for i := range r.Loads {
		if r.Loads[i].Name == zipfRange {
			r.HitShare, r.NearbyShare = r.Loads[i].Gateway.HitShare, r.Loads[i].Gateway.NearbyShare
		}
	}
	r.Watch = newWatch(r.delays)
	r.WatchAddedMs = r.Watch.AddedMs
}

func (r *Ratios) summarise() {
	for i := range r.Loads {
		l := &r.Loads[i]
		l.Gateway = medians(l.Rounds, func(p *Pair) *Window { return &p.Gateway })
		l.Etcd = medians(l.Rounds, func(p *Pair) *Window { return &p.Etcd })
		l.Ratio = median(l.Rounds, func(p *Pair) float64 { return p.Gateway.PerSecond / p.Etcd.PerSecond })
		l.P50Ratio = median(l.Rounds, func(p *Pair) float64 { return p.Gateway.P50ms / p.Etcd.P50ms })
		switch l.Name {
		case hotRange:
			r.HotRangeRatio, r.HotP50Ratio = l.Ratio, l.P50Ratio
		case zipfRange:
			r.ZipfRangeRatio = l.Ratio
		case probe:
			r.ProbeRatio = l.Ratio
		case coldPut:
			r.PutRatio = l.Ratio
		case coldTxn:
			r.TxnRatio = l.Ratio
		case placedPut:
			r.PlacedPutP50Ratio = l.P50Ratio
		case mixed1:
			r.Mixed1Ratio = l.Ratio
		case mixed10:
			r.Mixed10Ratio = l.Ratio
		case mixed50:
			r.Mixed50Ratio = l.Ratio
		}
	}
}

func median(rounds []Pair, of func(*Pair) float64) float64 {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = of(&rounds[i])
	}
	return statistics.Median(values)
}

func medians(rounds []Pair, side func(*Pair) *Window) (w Window) {
	w.PerSecond = median(rounds, func(p *Pair) float64 { return side(p).PerSecond })
	w.P50ms = median(rounds, func(p *Pair) float64 { return side(p).P50ms })
	w.P99ms = median(rounds, func(p *Pair) float64 { return side(p).P99ms })
	for i, part := range w.CPU.parts() {
		*part = median(rounds, func(p *Pair) float64 { return *side(p).CPU.parts()[i] })
	}
	w.HitShare = median(rounds, func(p *Pair) float64 { return side(p).HitShare })
	w.NearbyShare = median(rounds, func(p *Pair) float64 { return side(p).NearbyShare })
	for i := range rounds {
		w.Errors += side(&rounds[i]).Errors
	}
	return w
}

// Table returns one row per load.
func (r *Result) Table() ([]string, [][]string) {
	header := []string{
		"load", "client", "gateway/s", "etcd/s", "ratio", "gateway p50 ms", "etcd p50 ms", "ratio", "gateway p99 ms",
		"etcd p99 ms", "hits, %", "nearby, %", "errors",
	}
	var rows [][]string
	for i := range r.Loads {
		rows = append(rows, r.Loads[i].row("etcd's"), r.Frames.Loads[i].row("frames"))
	}
	return header, rows
}

func (l *Load) row(client string) []string {
	percent := func(share float64) string {
		if share == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", 100*share)
	}
	return []string{
		l.Name, client,
		fmt.Sprintf("%.0f", l.Gateway.PerSecond), fmt.Sprintf("%.0f", l.Etcd.PerSecond), fmt.Sprintf("%.2f", l.Ratio),
		fmt.Sprintf("%.2f", l.Gateway.P50ms), fmt.Sprintf("%.2f", l.Etcd.P50ms), fmt.Sprintf("%.2f", l.P50Ratio),
		fmt.Sprintf("%.2f", l.Gateway.P99ms), fmt.Sprintf("%.2f", l.Etcd.P99ms),
		percent(l.Gateway.HitShare), percent(l.Gateway.NearbyShare),
		fmt.Sprint(l.Gateway.Errors + l.Etcd.Errors),
	}
}

// Summary describes watches and settings.
func (r *Result) Summary() string {
	return r.cpuTable() + "\n" + fmt.Sprintf("watch: %d events arrive %.2f ms later through the gateway (p99 %.2f ms).\n"+
		"%d clients on %d connections to either side, values of %d bytes; medians of %d interleaved rounds; seed %d.\n%s.",
		r.Watch.Events, r.Watch.AddedMs, r.Watch.P99Ms, r.Clients, r.Conns, r.ValueBytes, len(r.Loads[0].Rounds), r.Seed,
		strings.Join(r.Settings, "; "))
}
