package reconfig

import (
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
)

func keep(epoch uint32) ShardOrder {
	return ShardOrder{Config: chain.ShardConfig{Epoch: epoch}, Keep: true}
}

// again is an order to learn a shard again that has been of one lineage since an epoch.
func again(epoch, born uint32) ShardOrder {
	o := learner(epoch, "s")
	o.Born = born
	return o
}

// doubted makes the bench give up versions that may not be committed.
func (b *bench) doubted() {
	b.t.Helper()
	if err := b.Doubted(b.Work().Doubt); err != nil {
		b.t.Fatal(err)
	}
}

// TestComeBack: a full member that left keeps its copy. Before it joins again it gives up writes that may not be committed,
// and it copies the changes since it was last a full member (C7, C8), but only within a lineage (C9).
func TestComeBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		without Rule
		before  []ShardOrder
		now     ShardOrder
		since   uint32 // 0: everything is copied
		doubts  bool
	}{
		{"left and kept", 0, []ShardOrder{full(3, chain.Active), keep(4)}, again(5, 1), 3, true},
		{"left, and did not keep", 0, []ShardOrder{full(3, chain.Active), none(4)}, again(5, 1), 0, false},
		{"was out without knowing", 0, []ShardOrder{full(3, chain.Active)}, again(5, 1), 3, false},
		{"kept of no known lineage", 0, []ShardOrder{full(3, chain.Active), keep(4)}, again(5, 0), 0, true},
		{"kept of another lineage", 0, []ShardOrder{full(3, chain.Active), keep(4)}, again(7, 6), 0, true},
		{"of another lineage, without C9", C9, []ShardOrder{full(3, chain.Active), keep(4)}, again(7, 6), 3, true},
		{"kept too much, without C8", C8, []ShardOrder{full(3, chain.Active), keep(4)}, again(5, 1), 3, false},
		{"needs more, without C7", C7, []ShardOrder{full(3, chain.Active), keep(4)}, again(5, 1), ^uint32(0), true},
		{"broke off", 0, []ShardOrder{full(3, chain.Active), keep(4), again(5, 1), keep(6)}, again(8, 1), 3, true},
		{"learnt only", 0, []ShardOrder{again(3, 1), keep(4)}, again(5, 1), 0, false},
		{"goes on", 0, []ShardOrder{full(3, chain.Active), keep(4), again(5, 1)}, again(6, 1), 3, false},
		{"is held for it", 0, []ShardOrder{full(3, chain.Active), keep(4)}, ShardOrder{Config: chain.ShardConfig{Epoch: 5},
			Source: "s", Born: 1}, 3, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, MemberOptions{Without: c.without})
			for i, o := range c.before {
				b.give(only(0, o))
				if i < len(c.before)-1 {
					b.wiped()
					b.doubted()
				}
			}
			if last := c.before[len(c.before)-1]; last.Keep && (len(b.Work().Doubt) > 0) != c.doubts {
				t.Errorf("%+v", b.Work())
			}
			b.give(only(0, c.now))
			b.wiped()
			b.doubted()
			copies := b.Work().Copies
			if len(copies) != 1 || copies[0].Since[0] != c.since {
				t.Fatalf("copies %+v, want since %d", copies, c.since)
			}
			if base := b.plane.Node.Config(0).Base; c.without == 0 && base != c.since {
				t.Errorf("the plane has base %d", base)
			}
			b.CopyDone(copies[0].Job)
			last := full(c.now.Config.Epoch+1, chain.Active)
			last.Fresh = false
			b.give(only(0, last))
			if config := b.plane.Node.Config(0); config.Base != 0 || !config.Readable() {
				t.Errorf("a full member has %+v", config)
			}
		})
	}
}

// TestComeBackAfterRestart: the plane has the kept state, and a new agent examines it again.
func TestComeBackAfterRestart(t *testing.T) {
	b := newBench(t, MemberOptions{})
	b.give(map[uint16]ShardOrder{0: full(3, chain.Active), 1: full(3, chain.Active)})
	b.give(map[uint16]ShardOrder{0: keep(4), 1: keep(4)})
	b.doubted()
	b.give(only(1, again(5, 1)))
	b = attach(t, b.plane, MemberOptions{Kept: true})
	if w := b.Work(); !slices.Equal(w.Doubt, []uint16{0}) || slices.Contains(w.Wipe, 0) || slices.Contains(w.Wipe, 1) {
		t.Fatalf("%+v", w)
	}
	if i := b.Inventory().Configs; i[0].Base != 3 || i[0].State != chain.None {
		t.Errorf("inventory %+v", i)
	}
	b.wiped()
	b.doubted()
	b.give(only(1, again(5, 1)))
	if copies := b.Work().Copies; len(copies) != 1 || copies[0].Since[1] != 3 {
		t.Errorf("copies %+v", copies)
	}
}
