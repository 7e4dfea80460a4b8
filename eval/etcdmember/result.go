package etcdmember

import (
	"fmt"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/statistics"
)

// CPU is CPU time for each request, in microseconds.
type CPU struct {
	Servers float64 `json:"servers"` // all members of the cluster
	Chain   float64 `json:"chain"`   // agents; programs in the kernel count for the process that they interrupt
	Clients float64 `json:"clients"` // this process
}

func (c *CPU) parts() []*float64 { return []*float64{&c.Servers, &c.Chain, &c.Clients} }

// Window is what clients saw of one load within its time, and what it cost.
type Window struct {
	etcdload.Window
	FastShare float64 `json:"fast_share"` // part of the reads that members answered through the chain
	CPU       CPU     `json:"cpu_us"`
}

// Pair is one load in one round, on both clusters.
type Pair struct {
	Member Window `json:"member"`
	Etcd   Window `json:"etcd"`
}

// needed is the CPU time without the clients'. etcd needs no chain: that of the idle one beside it does not count.
func (p *Pair) needed() (ours, etcd float64) {
	return p.Member.CPU.Servers + p.Member.CPU.Chain, p.Etcd.CPU.Servers
}

// Load is the result of one load: medians over the rounds, and of the rounds' ratios, with the least and the greatest.
type Load struct {
	Name       string  `json:"name"`
	About      string  `json:"about"`
	Member     Window  `json:"member"`
	Etcd       Window  `json:"etcd"`
	Ratio      float64 `json:"ratio"` // of the rates, members that read through the chain to plain ones
	LeastRatio float64 `json:"least_ratio"`
	MostRatio  float64 `json:"most_ratio"`
	P50Ratio   float64 `json:"p50_ratio"` // of the medians
	CPURatio   float64 `json:"cpu_ratio"` // servers and chain, to etcd's servers
	Rounds     []Pair  `json:"rounds"`
}

// Ratios compare both clusters as one kind of client saw them.
type Ratios struct {
	PutRatio      float64 `json:"put_ratio"`
	PutP50Ratio   float64 `json:"put_p50_ratio"`
	TxnRatio      float64 `json:"txn_ratio"`
	RangeRatio    float64 `json:"range_ratio"`
	RangeP50Ratio float64 `json:"range_p50_ratio"`
	LeaderRatio   float64 `json:"leader_range_ratio"`      // ranges at the leaders alone
	FollowerRatio float64 `json:"follower_range_ratio"`    // ranges at all others
	BusyRatio     float64 `json:"busy_leader_range_ratio"` // the same while clients put at the leader
	ListRatio     float64 `json:"list_ratio"`
	PutCPURatio   float64 `json:"put_cpu_ratio"` // as [Load.CPURatio]
	RangeCPURatio float64 `json:"range_cpu_ratio"`
	MixedRatio    float64 `json:"mixed_ratio"` // 10 % puts
	Loads         []Load  `json:"loads"`
}

// Result compares both clusters.
type Result struct {
	Ratios              // with etcd's own client
	Frames     Ratios   `json:"frames"` // with a client that costs little: see [etcdload.FrameConn]
	Fanout     *Load    `json:"watch_fanout,omitempty"`
	FanRatio   float64  `json:"watch_fanout_ratio,omitempty"` // of the events a second
	Clients    int      `json:"clients"`
	Conns      int      `json:"conns"`
	Keys       int      `json:"keys"`
	ValueBytes int      `json:"value_bytes"`
	Seed       uint64   `json:"seed"`
	Baseline   string   `json:"baseline"`
	Ours       string   `json:"ours"`
	Settings   []string `json:"settings"`
}

func newResult(o *Options, etcd []string) *Result {
	r := &Result{
		Clients: o.Clients, Conns: o.Conns, Keys: o.Keys, ValueBytes: o.ValueBytes, Seed: o.Seed, Baseline: o.Baseline, Ours: o.Ours,
		Settings: []string{"both clusters: " + strings.Join(etcd, ", "), o.About},
	}
	if o.Baseline == BaselineLease {
		r.Settings = append(r.Settings, "etcd here reads by Raft's leases (ReadOnlyLeaseBased), which etcd does not offer: "+
			"a clock or a pause can make its answers stale")
	}
	for _, l := range o.loads() {
		r.Loads = append(r.Loads, Load{Name: l.Name, About: l.About})
		r.Frames.Loads = append(r.Frames.Loads, Load{Name: l.Name, About: l.About})
	}
	if o.Watchers > 0 {
		about := fmt.Sprintf("events of puts to %d watchers; times until the last one has an event", o.Watchers)
		r.Fanout = &Load{Name: fanouts, About: about}
	}
	return r
}

func (r *Result) summarise(o *Options) {
	if r.Fanout != nil {
		r.Fanout.summarise()
		r.FanRatio = r.Fanout.Ratio
	}
	r.Ratios.summarise(o.Alone)
	r.Frames.summarise(o.Alone)
}

// summarise computes the ratios. alone says that the latency of puts is that of one client.
func (r *Ratios) summarise(alone bool) {
	for i := range r.Loads {
		l := &r.Loads[i]
		l.summarise()
		switch l.Name {
		case ranges:
			r.RangeRatio, r.RangeP50Ratio, r.RangeCPURatio = l.Ratio, l.P50Ratio, l.CPURatio
		case leaderRanges:
			r.LeaderRatio = l.Ratio
		case followerRanges:
			r.FollowerRatio = l.Ratio
		case busyRanges:
			r.BusyRatio = l.Ratio
		case lists:
			r.ListRatio = l.Ratio
		case puts:
			r.PutRatio, r.PutCPURatio = l.Ratio, l.CPURatio
			if !alone {
				r.PutP50Ratio = l.P50Ratio
			}
		case onePut:
			r.PutP50Ratio = l.P50Ratio
		case txns:
			r.TxnRatio = l.Ratio
		case mixed10:
			r.MixedRatio = l.Ratio
		}
	}
}

func (l *Load) summarise() {
	l.Member = medians(l.Rounds, func(p *Pair) *Window { return &p.Member })
	l.Etcd = medians(l.Rounds, func(p *Pair) *Window { return &p.Etcd })
	rates := each(l.Rounds, func(p *Pair) float64 { return p.Member.PerSecond / p.Etcd.PerSecond })
	l.Ratio = statistics.Median(rates)
	l.LeastRatio, l.MostRatio = slices.Min(rates), slices.Max(rates)
	l.P50Ratio = statistics.Median(each(l.Rounds, func(p *Pair) float64 { return p.Member.P50ms / p.Etcd.P50ms }))
	l.CPURatio = statistics.Median(each(l.Rounds, func(p *Pair) float64 {
		ours, etcd := p.needed()
		return ours / etcd
	}))
}

func each(rounds []Pair, of func(*Pair) float64) []float64 {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = of(&rounds[i])
	}
	return values
}

func medians(rounds []Pair, side func(*Pair) *Window) (w Window) {
	median := func(of func(*Window) float64) float64 {
		return statistics.Median(each(rounds, func(p *Pair) float64 { return of(side(p)) }))
	}
	w.PerSecond = median(func(w *Window) float64 { return w.PerSecond })
	w.P50ms = median(func(w *Window) float64 { return w.P50ms })
	w.P99ms = median(func(w *Window) float64 { return w.P99ms })
	w.FastShare = median(func(w *Window) float64 { return w.FastShare })
	for i, part := range w.CPU.parts() {
		*part = median(func(w *Window) float64 { return *w.CPU.parts()[i] })
	}
	for i := range rounds {
		w.Errors += side(&rounds[i]).Errors
	}
	return w
}

// Table returns two rows for each load.
func (r *Result) Table() ([]string, [][]string) {
	header := []string{
		"load", "client", r.Ours + "/s", "etcd/s", "ratio", "least", "most", r.Ours + " p50 ms", "etcd p50 ms", "ratio",
		r.Ours + " p99 ms", "etcd p99 ms", r.Ours + " µs", "etcd µs", "ratio", "fast, %", "errors",
	}
	var rows [][]string
	for i := range r.Loads {
		rows = append(rows, r.Loads[i].row("etcd's"), r.Frames.Loads[i].row("frames"))
	}
	if r.Fanout != nil {
		rows = append(rows, r.Fanout.row("etcd's"))
	}
	return header, rows
}

func (l *Load) row(client string) []string {
	fast := "-"
	if l.Member.FastShare > 0 {
		fast = fmt.Sprintf("%.1f", 100*l.Member.FastShare)
	}
	n := func(digits int, values ...float64) (texts []string) {
		for _, v := range values {
			texts = append(texts, fmt.Sprintf("%.*f", digits, v))
		}
		return texts
	}
	row := append([]string{l.Name, client}, n(0, l.Member.PerSecond, l.Etcd.PerSecond)...)
	row = append(row, n(2, l.Ratio, l.LeastRatio, l.MostRatio)...)
	row = append(row, n(2, l.Member.P50ms, l.Etcd.P50ms, l.P50Ratio, l.Member.P99ms, l.Etcd.P99ms)...)
	ours, etcd := (&Pair{Member: l.Member, Etcd: l.Etcd}).needed()
	row = append(row, n(0, ours, etcd)...)
	row = append(row, n(2, l.CPURatio)...)
	return append(row, fast, fmt.Sprint(l.Member.Errors+l.Etcd.Errors))
}

// Summary describes the settings.
func (r *Result) Summary() string {
	return fmt.Sprintf("Medians of %d interleaved rounds and of their ratios. µs: CPU time of the servers for each "+
		"request, ours with the chain's agents.\n%d clients on %d connections to the members of each cluster in turn, "+
		"%d keys of %d bytes; seed %d.\n%s.",
		len(r.Loads[0].Rounds), r.Clients, r.Conns, r.Keys, r.ValueBytes, r.Seed, strings.Join(r.Settings, "; "))
}
