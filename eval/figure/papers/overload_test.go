package papers

import (
	"math"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/bench"
	"github.com/netcraq/netcraq/eval/figure"
)

// measuredTimes is a figure of times in which a read takes, and is not answered, as the maps say, by series.
func measuredTimes(t *testing.T, us, unanswered map[string]float64) *figure.Made {
	t.Helper()
	s, dir := netcraqLatency(), t.TempDir()
	record(t, dir, s, func(c figure.Cell) bool { return c.X == 5000 }, func(c figure.Cell) figure.Sample {
		v := make(map[string]float64)
		readTime.add(v, us[c.Series], 2*us[c.Series], unanswered[c.Series])
		return values(v)
	})
	o, err := figure.Load(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Made(dir)
}

func resultOf(t *testing.T, m *figure.Made, beginning string) figure.Result {
	t.Helper()
	for _, r := range m.Results {
		if strings.HasPrefix(r.Metric, beginning) {
			return r
		}
	}
	t.Fatalf("no result begins with %q", beginning)
	return figure.Result{}
}

// A chain that loses requests has no times: those that it answers are no slower than those of a
// chain that answers all.
func TestOverloadedHasNoTime(t *testing.T) {
	m := measuredTimes(t, map[string]float64{ours: 1, netChain: 10, netcraqPaper: 10}, map[string]float64{ours: 30})
	for _, text := range []string{"median time of a read at " + number(5000), "p99 of a read at " + number(5000)} {
		if r := resultOf(t, m, text); r.Values[figure.Ours] != nil ||
			r.Values[figure.NetChain] == nil || r.Mark != nil || !strings.Contains(r.Metric, "overloaded: "+ours) {
			t.Errorf("%+v", r)
		}
	}
	for _, against := range []string{netChain, netcraqPaper} {
		answered := resultOf(t, m, "reads answered of "+number(5000)+"/s (overloaded: NetCRAQ), against "+against)
		mine := answered.Values[figure.Ours]
		if mine == nil || *mine != 70 || answered.Mark == nil || answered.Mark.Met() {
			t.Errorf("%+v", answered)
		}
	}
}

// A system that keeps up where another is overloaded has no time to compare, but answers more.
func TestOnlyOtherIsOverloaded(t *testing.T) {
	m := measuredTimes(t, map[string]float64{ours: 10, netChain: 1, netcraqPaper: 9},
		map[string]float64{netChain: 2, netcraqPaper: 1})
	if r := resultOf(t, m, "median time of a read at "+number(5000)); r.Values[figure.NetChain] != nil ||
		r.Values[figure.Ours] == nil || r.Values[figure.NetCRAQPaper] == nil || r.Mark != nil {
		t.Errorf("%+v", r)
	}
	if r := resultOf(t, m, "reads answered of "+number(5000)); r.Mark == nil || !r.Mark.Met() {
		t.Errorf("%+v", r)
	}
	if r := resultOf(t, m, "p99 of a read, where NetCRAQ is least ahead of the published one"); r.Mark == nil ||
		r.Mark.Met() ||
		*r.Values[figure.Ours] != 20 {
		t.Errorf("%+v", r)
	}
}

// All figures of lines judge ours against NetCRAQ as published.
func TestNeverBehindNetCRAQPaperIsJudged(t *testing.T) {
	for _, s := range []*figure.Spec{
		netcraqLatency(), netchainLatency(), netchainStoreSize(), netchainValueSize(), netchainWriteShare(),
		netcraqDistance(), netcraqMixed(), netcraqLength(), netcraqCongestion(),
	} {
		dir := t.TempDir()
		invent(t, dir, s, func(figure.Cell) bool { return true })
		o, err := figure.Load(dir, s)
		if err != nil {
			t.Fatal(err)
		}
		judged := 0
		for _, r := range o.Made(dir).Results {
			if r.Mark != nil && r.Mark.Against == netcraqPaper && r.Mark.Ratio != nil {
				judged++
			}
		}
		if judged < len(s.Panels) && s.Name != "netcraq-mixed" { // whose other panel shows how much is dirty
			t.Errorf("%s: %d marks for %d panels", s.Name, judged, len(s.Panels))
		}
	}
}

// Requests that could not be sent because the chain used all of the CPU count as lost; the first
// moments do not.
func TestUnansweredIsOfWhatWasDue(t *testing.T) {
	for _, c := range []struct {
		sent, answered uint64
		percent        float64
	}{{10_000, 10_000, 0}, {9_900, 9_900, 0}, {10_000, 9_000, 10}, {4_900, 4_900, 50}, {4_900, 0, 100}} {
		found := bench.LineLatency{
			LineFigure:  bench.LineFigure{Sent: c.sent, Answered: c.answered, LoadS: 0.1},
			OfferedPerS: 100_000,
		}
		if got := unansweredPercent(found); math.Abs(got-c.percent) > 0.01 {
			t.Errorf("%d sent, %d answered: %v %%", c.sent, c.answered, got)
		}
	}
}
