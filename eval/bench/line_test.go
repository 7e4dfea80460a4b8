package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// lineWindow is long enough for every kind of work to be answered.
const lineWindow = 60 * time.Millisecond

func openLineForTest(t *testing.T, o LineOptions) *Line {
	t.Helper()
	needRoot(t)
	if o.ValueBytes == 0 {
		o.ValueBytes = 16
	}
	l, err := OpenLine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

var protocols = []Protocol{NetCRAQ, NetChain, NetCRAQPaper}

// TestLineAnswers runs all kinds of work on lines of all protocols and expects correct answers and
// no loss.
func TestLineAnswers(t *testing.T) {
	for _, protocol := range protocols {
		for _, nodes := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", protocol, nodes), func(t *testing.T) {
				l := openLineForTest(t, LineOptions{Protocol: protocol, Nodes: nodes, Keys: 100})
				for _, w := range []Work{
					{}, {Target: nodes - 1}, {WriteShare: 1}, {WriteShare: 0.25}, {Dirty: true},
					{Dirty: true, Target: nodes - 1}, {Target: nodes / 2},
				} {
					f, err := l.Throughput(t.Context(), w, lineWindow)
					if err != nil {
						t.Fatalf("%+v: %v", w, err)
					}
					t.Logf("%+v: %+v", w, f)
					if f.Answered == 0 || f.Lost > f.Sent/100 || f.ReadsPerS > 0 != (w.WriteShare < 1) ||
						f.WritesPerS > 0 != (w.WriteShare > 0) {
						t.Errorf("%+v: %+v", w, f)
					}
				}
			})
		}
	}
}

// TestLineAnswersBundles runs all kinds of work with several requests per frame, up to as many as
// fit.
func TestLineAnswersBundles(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		l := openLineForTest(t, LineOptions{Protocol: NetCRAQ, Nodes: nodes, Keys: 100})
		for _, w := range []Work{
			{Slots: MostReads(16)}, {Target: nodes - 1, Slots: 2}, {WriteShare: 1, Slots: MostWrites(16)},
			{WriteShare: 0.25, Slots: 5},
			{Dirty: true, Slots: 14}, {Dirty: true, Target: nodes - 1, Slots: 14}, {},
		} {
			f, err := l.Throughput(t.Context(), w, lineWindow)
			if err != nil {
				t.Fatalf("%+v: %v", w, err)
			}
			t.Logf("%+v: %+v", w, f)
			if f.Answered == 0 || f.Lost > f.Sent/100 || f.Sent%uint64(max(w.Slots, 1)) != 0 ||
				f.WritesPerS > 0 != (w.WriteShare > 0) {
				t.Errorf("%+v: %+v", w, f)
			}
		}
	}
}

// TestLineBundlesLatency expects a latency for every answer, at the offered load.
func TestLineBundlesLatency(t *testing.T) {
	const perSecond = 50_000
	l := openLineForTest(t, LineOptions{Protocol: NetCRAQ, Nodes: 3, Keys: 100})
	f, err := l.Latency(t.Context(), Work{WriteShare: 0.5, Slots: 10}, perSecond, 3*lineWindow)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", f)
	if f.Lost > 0 || f.Read.Count+f.Write.Count != f.Answered || float64(f.Sent) > 1.1*perSecond*f.LoadS {
		t.Errorf("%+v", f)
	}
}

// TestLineLatency expects that an idle chain answers everything, and that high quantiles are not
// below the median.
func TestLineLatency(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			l := openLineForTest(t, LineOptions{Protocol: protocol, Nodes: 3, Keys: 100})
			f, err := l.Latency(t.Context(), Work{WriteShare: 0.5}, 10_000, 3*lineWindow)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", f)
			for _, q := range []Quantiles{f.Read, f.Write} {
				if q.Count == 0 || q.P50us <= 0 || q.P99us < q.P50us || q.P999us < q.P99us {
					t.Errorf("%+v", q)
				}
			}
			if f.Lost > 0 || f.Read.Count+f.Write.Count != f.Answered {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestLineLosesFrames expects both goodput and losses on lossy links.
func TestLineLosesFrames(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			l := openLineForTest(t, LineOptions{Protocol: protocol, Nodes: 3, Keys: 100, Wires: true})
			for _, w := range []Work{{}, {LossPercent: 5}, {LossPercent: 5, WriteShare: 0.1}, {}} {
				f, err := l.Throughput(t.Context(), w, lineWindow)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%+v: %+v", w, f)
				if f.Answered == 0 || w.LossPercent > 0 && f.Lost == 0 {
					t.Errorf("%+v: %+v", w, f)
				}
			}
		})
	}
}

// TestLineCongestion expects that background traffic takes its share of a congested node, and none
// of another node.
func TestLineCongestion(t *testing.T) {
	l := openLineForTest(t, LineOptions{Protocol: NetCRAQ, Nodes: 2, Keys: 10, Wires: true})
	rates := make(map[int]float64)
	for target := range 2 {
		f, err := l.Throughput(t.Context(), Work{Target: target, Congestion: &Congestion{Nodes: []int{1}}}, 5*lineWindow)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("node %d: %+v", target, f)
		rates[target] = f.ReadsPerS
	}
	if rates[1] > rates[0]/2 || rates[1] == 0 {
		t.Errorf("%v reads a second, though others take most of what node 1 can", rates)
	}
}

// TestLineRenewsWhatLossWoreOut expects no dropped writes after work under loss. Objects of
// published NetCRAQ would otherwise drop writes for good after their acknowledgements were lost.
func TestLineRenewsWhatLossWoreOut(t *testing.T) {
	l := openLineForTest(t, LineOptions{Protocol: NetCRAQPaper, Nodes: 3, Keys: 20, Wires: true})
	for _, w := range []Work{{LossPercent: 40, WriteShare: 1}, {WriteShare: 1}} {
		f, err := l.Throughput(t.Context(), w, lineWindow)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v: %+v", w, f)
		if (f.Overflows > 0) != (w.LossPercent > 0) {
			t.Errorf("%+v: %d writes were dropped", w, f.Overflows)
		}
	}
}

// TestLineOfSwitches runs reads, of clean and of dirty objects, and writes on lines of P4 programs. The nodes forward
// frames for each other: their kernels do not.
func TestLineOfSwitches(t *testing.T) {
	enginetest.Need(t)
	for _, protocol := range protocols {
		t.Run(string(protocol), func(t *testing.T) {
			const nodes = 3
			l := openLineForTest(t, LineOptions{Protocol: protocol, Nodes: nodes, Keys: 20, Seq32: true, P4: true})
			for _, w := range []Work{{}, {Target: nodes - 1}, {WriteShare: 1}, {Dirty: true}} {
				f, err := l.Throughput(t.Context(), w, lineWindow)
				if err != nil {
					t.Fatalf("%+v: %v", w, err)
				}
				t.Logf("%+v: %+v", w, f)
				if f.Answered == 0 || f.Lost > 0 || f.ReadsPerS > 0 != (w.WriteShare < 1) {
					t.Errorf("%+v: %+v", w, f)
				}
			}
		})
	}
}
