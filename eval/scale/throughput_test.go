package scale

import (
	"math"
	"testing"
	"time"

	"github.com/netcraq/netcraq/eval/statistics"
)

// rates are like those of one machine's nodes.
var rates = Rates{Transit: 5e6, Read: 4.5e6, Write: 2e6, Commit: 1e6}

func throughput(t *testing.T, switches int, p Protocol, w Work) *Result {
	t.Helper()
	r, err := Throughput(SpineLeaf(switches), p, rates, w)
	if err != nil {
		t.Fatal(err)
	}
	if r.Switches != switches || !(r.PerSecond > 0) || r.Least > r.PerSecond || r.Most < r.PerSecond ||
		r.MeanBusy <= 0 ||
		r.MeanBusy > 1 ||
		r.Dirty < 0 ||
		r.Dirty > 1 {
		t.Fatalf("%+v", r)
	}
	return r
}

// A leaf and a spine share one key. The expected counts are calculated by hand.
func TestASmallFabricByHand(t *testing.T) {
	f := Fabric{Leaves: 1, Spines: 1, Chain: 2}
	// The only leaf has half of the chains' tails or so; a read at the spine passes the leaf twice.
	m, err := newModel(f, NetChain, rates, Work{})
	if err != nil {
		t.Fatal(err)
	}
	m.populate(1)
	got := m.spread()
	atLeaf := 0.0
	for _, s := range m.shards {
		if s.tail() == 0 {
			atLeaf += s.part
		}
	}
	want := 1 / max(atLeaf/rates.Read+(1-atLeaf)*2/rates.Transit, (1-atLeaf)/rates.Read)
	if math.Abs(got-want) > 1e-6*want {
		t.Errorf("%g reads per second, not %g", got, want)
	}
	// A write: client, leaf and spine in either order; the leaf's ACK or the spine's.
	m, err = newModel(f, Ours, Rates{Transit: 1, Read: 1, Write: 1}, Work{WriteShare: 1})
	if err != nil {
		t.Fatal(err)
	}
	m.populate(1)
	m.spread()
	l, _ := m.count(1)
	down := 0.0 // part of the chains with the leaf first
	for _, s := range m.shards {
		if s.tail() == 1 {
			down += s.part
		}
	}
	// head leaf: leaf writes, spine commits, leaf passes the answer on and takes the ACK. Head
	// spine: leaf passes on, spine writes, leaf commits, spine takes the ACK.
	if leaf, spine := l.of(0), l.of(1); math.Abs(leaf-(3*down+2*(1-down))) > 1e-9 ||
		math.Abs(spine-(down+2*(1-down))) > 1e-9 {
		t.Errorf("leaf %v, spine %v, %v of the chains begin at the leaf", leaf, spine, down)
	}
}

func TestThroughputGrowsWithSwitches(t *testing.T) {
	for _, p := range []Protocol{NetChain, NetCRAQPaper, Ours} {
		for _, writes := range []float64{0, 0.1, 1} {
			few, many := throughput(t, 12, p, Work{WriteShare: writes}), throughput(t, 96, p, Work{WriteShare: writes})
			if factor := many.PerSecond / few.PerSecond; factor < 5.5 || factor > 9 {
				t.Errorf("%s, %g writes: 8 times the switches carry %.2f times as much", p, writes, factor)
			}
		}
	}
}

// Popular keys limit protocols with one answering node for each key. With three answering nodes
// and levelled reads, throughput is about three times as high.
func TestPopularKeys(t *testing.T) {
	w := Work{Zipf: 0.99, Spread: Level}
	theirs, netcraqPaper, ours := throughput(t, 99, NetChain, w), throughput(t, 99, NetCRAQPaper,
		w), throughput(t, 99, Ours, w)
	hottest := statistics.ZipfParts(defaultKeys, 0.99)[0]
	if limit := rates.Read / hottest; theirs.PerSecond > limit || ours.PerSecond > 3*limit {
		t.Errorf("%g and %g reads, and the most popular key alone allows %g for each node", theirs.PerSecond,
			ours.PerSecond, limit)
	}
	for _, r := range []*Result{netcraqPaper, ours} {
		if r.PerSecond < 1.8*theirs.PerSecond {
			t.Errorf("%+v against %+v", r, theirs)
		}
	}
}

// Levelling uses the load of every switch. It is an upper bound that clients without this
// knowledge don't reach, and applies only if selected by name.
func TestLevellingIsABoundAndNotTheDefault(t *testing.T) {
	for _, p := range []Protocol{NetCRAQPaper, Ours} {
		w := Work{Zipf: 0.99}
		otherwise := throughput(t, 99, p, w)
		w.Spread = Even
		even := throughput(t, 99, p, w)
		w.Spread = Level
		bound := throughput(t, 99, p, w)
		if otherwise.PerSecond != even.PerSecond || bound.PerSecond < 1.05*even.PerSecond {
			t.Errorf("%s: %g reads by default, %g shared evenly, %g levelled", p, otherwise.PerSecond,
				even.PerSecond, bound.PerSecond)
		}
	}
}

func TestReadsMeetDirtyObjectsWhereThereAreWrites(t *testing.T) {
	for _, p := range []Protocol{NetCRAQPaper, Ours} {
		none, some := throughput(t, 30, p, Work{Zipf: 0.99}), throughput(t, 30, p, Work{Zipf: 0.99, WriteShare: 0.2})
		if none.Dirty != 0 || some.Dirty <= 0 || some.PerSecond >= none.PerSecond {
			t.Errorf("%+v, %+v", none, some)
		}
	}
	if r := throughput(t, 30, NetChain, Work{Zipf: 0.99, WriteShare: 0.2}); r.Dirty != 0 {
		t.Errorf("%+v", r)
	}
}

func TestAThousandSwitchesTakeNoTime(t *testing.T) {
	for _, switches := range []int{100, 1000} {
		for _, p := range []Protocol{NetChain, NetCRAQPaper, Ours} {
			from := time.Now()
			r := throughput(t, switches, p, Work{Zipf: 0.99, WriteShare: 0.1, Spread: Level})
			t.Logf("%d switches, %s: %v, %+v", switches, p, time.Since(from), *r)
		}
	}
}

// Sweeps level busy times where possible, from any start. A node that is busier for other reasons
// gets no reads, and dirty reads go to the tail.
func TestLevelling(t *testing.T) {
	clean := [][]float64{{3, 0, 0}, {0, 3, 0}, {0, 0, 3}}
	for name, c := range map[string]struct {
		others  []float64 // busy times without the shard's reads
		effects [][]float64
		want    []float64
	}{
		"equal":           {[]float64{1, 1, 1}, clean, []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}},
		"one is busy":     {[]float64{5, 1, 2}, clean, []float64{0, 2.0 / 3, 1.0 / 3}},
		"all dirty":       {[]float64{1, 1, 1}, [][]float64{{2, 0, 3}, {0, 2, 3}, {0, 0, 3}}, []float64{0, 0, 1}},
		"nothing to gain": {[]float64{0, 0, 9}, [][]float64{{3, 0, 3}, {0, 3, 3}, {0, 0, 3}}, []float64{0, 0, 1}},
	} {
		s := &shard{chain: []int{0, 1, 2}, reads: []float64{0.5, 0.25, 0.25}}
		busy := append([]float64(nil), c.others...)
		for k, reads := range s.reads {
			for n := range busy {
				busy[n] += reads * c.effects[k][n]
			}
		}
		for range 100 {
			s.shift(busy, c.effects)
		}
		for k := range c.want {
			if math.Abs(s.reads[k]-c.want[k]) > 0.01 {
				t.Errorf("%s: %v, not %v", name, s.reads, c.want)
				break
			}
		}
	}
}

func TestFabricsThatCannotBeAreRefused(t *testing.T) {
	good := SpineLeaf(6)
	for name, run := range map[string]func() error{
		"no spine": func() error { _, err := Throughput(Fabric{Leaves: 3}, Ours, rates, Work{}); return err },
		"long chain": func() error {
			_, err := Throughput(Fabric{Leaves: 1, Spines: 1, Chain: 3}, Ours, rates, Work{})
			return err
		},
		"many shards": func() error {
			_, err := Throughput(Fabric{Leaves: 4, Spines: 1, Shards: 1 << 17}, Ours, rates, Work{})
			return err
		},
		"no rates":      func() error { _, err := Throughput(good, Ours, Rates{Transit: 1}, Work{}); return err },
		"no protocol":   func() error { _, err := Throughput(good, "craq", rates, Work{}); return err },
		"many writes":   func() error { _, err := Throughput(good, Ours, rates, Work{WriteShare: 1.5}); return err },
		"no such work":  func() error { _, err := Throughput(good, Ours, rates, Work{Spread: "far"}); return err },
		"negative zipf": func() error { _, err := Throughput(good, Ours, rates, Work{Zipf: -1}); return err },
	} {
		if run() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
