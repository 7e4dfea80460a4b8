package bench

import (
	"fmt"
	"testing"
	"time"
)

// lineTurn is long enough for every kind of work to be answered.
const lineTurn = 60 * time.Millisecond

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

var protocols = []Protocol{NetCRAQ, NetChain, Published}

// TestLineAnswers asks lines of all protocols for all kinds of work and expects right answers, none lost.
func TestLineAnswers(t *testing.T) {
	for _, protocol := range protocols {
		for _, nodes := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", protocol, nodes), func(t *testing.T) {
				l := openLineForTest(t, LineOptions{Protocol: protocol, Nodes: nodes, Keys: 100})
				for _, w := range []Work{
					{}, {Target: nodes - 1}, {WriteShare: 1}, {WriteShare: 0.25}, {Dirty: true}, {Dirty: true, Target: nodes - 1}, {Target: nodes / 2},
				} {
					f, err := l.Throughput(t.Context(), w, lineTurn)
					if err != nil {
						t.Fatalf("%+v: %v", w, err)
					}
					t.Logf("%+v: %+v", w, f)
					if f.Answered == 0 || f.Lost > f.Sent/100 || f.ReadsPerS > 0 != (w.WriteShare < 1) || f.WritesPerS > 0 != (w.WriteShare > 0) {
						t.Errorf("%+v: %+v", w, f)
					}
				}
			})
		}
	}
}
