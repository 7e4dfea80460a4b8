package chaos

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// every returns moments at a fixed distance between two times.
func every(apart, from, until time.Duration) (all moments) {
	for at := from; at < until; at += apart {
		all = append(all, at)
	}
	return all
}

// TestJudgeCountsClientsAndTheCopy expects two results: of two clients that write objects of one
// shard, one has a longer gap than the shard; the copy lasts from the first learner to the last
// whole chain.
func TestJudgeCountsClientsAndTheCopy(t *testing.T) {
	const ms = time.Millisecond
	now := 3000 * ms
	m := &topology.Map{
		Nodes:   []topology.Node{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Chains:  []topology.MapChain{{Members: []int{0, 1, 2}, Learner: -1}},
		ByShard: []uint32{0},
	}
	learning := *m
	learning.Chains = []topology.MapChain{{Members: []int{0, 2, 1}, Learner: 2}}
	c := newCopying(func() time.Duration { return now })
	c.note(m)
	now = 3500 * ms
	c.note(&learning)
	now = 3700 * ms
	c.note(&learning)

	patient := append(every(10*ms, 0, 2000*ms), every(10*ms, 2100*ms, 6000*ms)...)
	quick := append(every(10*ms, 0, 2000*ms), every(10*ms, 2040*ms, 3500*ms)...)
	quick = append(quick, every(10*ms, 4000*ms, 6000*ms)...) // no successes during the copy
	reader := []*probe{{seen: every(10*ms, 0, 6000*ms)}}
	f := &failover{
		c: &cluster{setup: &Setup{}}, victim: "b", before: m, copying: c, copied: 2e6,
		writers: []*probe{{seen: patient}, {seen: quick}}, steady: reader, anyNode: []*probe{{seen: patient}},
		failed: 2000 * ms, noticed: 2050 * ms, repaired: 4000 * ms, ended: 6000 * ms,
	}
	r := f.judge()
	for what, v := range map[string][2]float64{
		"shard's gap of writes": {r.WriteGapMs, 40}, "client's": {r.ClientWriteGapMs, 100},
		"shard's pause": {r.RepairPauseMs, 10}, "client's pause": {r.ClientPauseMs, 510},
		"gap of reads at survivors": {r.ReadGapMs, 10}, "at any node": {r.ClientReadGapMs, 100},
		"copy, s": {r.CopyS, 0.5}, "copied, MB": {r.CopiedMB, 2}, "writes before": {r.WritesBeforePerS, 200},
		"during": {r.WritesDuringPerS, 100},
	} {
		if v[0] != v[1] {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
}

// TestGapParts: the parts of a gap are in order and sum up to it, whatever of them lies outside.
func TestGapParts(t *testing.T) {
	const ms = time.Millisecond
	f := &failover{noticed: 30 * ms}
	for _, test := range []struct {
		begin, gap time.Duration
		want       GapParts
	}{
		{0, 50 * ms, GapParts{30, 20}},
		{20 * ms, 50 * ms, GapParts{10, 40}},
		{40 * ms, 50 * ms, GapParts{0, 50}},
		{0, 20 * ms, GapParts{20, 0}},
	} {
		if got := f.partsOf(test.begin, test.gap); got != test.want {
			t.Errorf("%v from %v: %+v, want %+v", test.gap, test.begin, got, test.want)
		}
	}
}
