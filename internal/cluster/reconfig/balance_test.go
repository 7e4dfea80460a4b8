package reconfig

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// loaded is a cluster under load: its clients read evenly from all members of a chain.
type loaded struct {
	state    *State
	loads    *Loads
	balancer *Balancer
	now      time.Duration
	rates    []Rate // of each shard
	asked    []Command
}

func newLoaded(nodes, shards, replicas int) *loaded {
	s := &State{Settings: Settings{Shards: shards, Replicas: replicas}, Nodes: make(map[NodeID]*Node), Shards: make([]Shard, shards)}
	var candidates []topology.Candidate
	for i := 1; i <= nodes; i++ {
		name := fmt.Sprintf("n%d", i)
		s.Nodes[NodeID(i)] = &Node{ID: NodeID(i), Name: name, Capacity: 100, Standing: Up}
		candidates = append(candidates, topology.Candidate{ID: uint32(i), Name: name, Capacity: 100})
	}
	chains := make([]topology.Chain, shards)
	for i := range chains {
		chains[i].Want = replicas
	}
	for i, members := range topology.NewRing(candidates, "").Plan(chains).After {
		for _, id := range members {
			s.Shards[i].Members = append(s.Shards[i].Members, NodeID(id))
		}
	}
	return &loaded{state: s, loads: NewLoads(), balancer: NewBalancer(BalanceOptions{}), rates: make([]Rate, shards)}
}

// second lets all nodes report, and carries out the balancer's commands at once.
func (l *loaded) second(t interface{ Fatalf(string, ...any) }) (commands []Command) {
	l.now += time.Second
	for id := range NodeID(len(l.state.Nodes) + 1) {
		report := Load{Node: id, Interval: time.Second, Shards: make(map[uint16]Rate)}
		for i := range l.state.Shards {
			if members := l.state.Shards[i].Members; slices.Contains(members, id) {
				report.Shards[uint16(i)] = Rate{l.rates[i].Reads / float64(len(members)), l.rates[i].Writes}
			}
		}
		if id != 0 {
			l.loads.Report(l.now, report)
		}
	}
	commands = l.balancer.Decide(l.now, l.state, l.loads)
	for _, c := range commands {
		l.do(t, c)
	}
	l.asked = append(l.asked, commands...)
	return commands
}

func (l *loaded) do(t interface{ Fatalf(string, ...any) }, c Command) {
	switch c := c.(type) {
	case Resize:
		shard := &l.state.Shards[c.Shard]
		shard.Extra = c.Extra
		if want := l.state.Settings.Replicas + int(c.Extra); want > wire.MaxChain || want > len(l.state.Nodes) {
			t.Fatalf("%+v: %d members of %d nodes", c, want, len(l.state.Nodes))
		} else if want < len(shard.Members) {
			shard.Members = shard.Members[:want]
		}
		for id := NodeID(1); len(shard.Members) < l.state.Settings.Replicas+int(c.Extra); id++ {
			if !slices.Contains(shard.Members, id) {
				shard.Members = append(shard.Members, id)
			}
		}
	case MoveShard:
		var from, to NodeID
		for id, n := range l.state.Nodes {
			switch n.Name {
			case c.From:
				from = id
			case c.To:
				to = id
			}
		}
		members := l.state.Shards[c.Shard].Members
		at := slices.Index(members, from)
		if at < 0 || to == 0 || slices.Contains(members, to) {
			t.Fatalf("%+v of %v", c, members)
		}
		members[at] = to
	case HandOver: // the head is back in an instant
		members := l.state.Shards[c.Shard].Members
		members[0], members[1] = members[1], members[0]
	default:
		t.Fatalf("the load asks for %T", c)
	}
}

func (l *loaded) run(t interface{ Fatalf(string, ...any) }, seconds int) (commands []Command) {
	for range seconds {
		commands = append(commands, l.second(t)...)
	}
	return commands
}

func TestHotShardsGetLongerChainsAndShortOnesAgain(t *testing.T) {
	l := newLoaded(6, 16, 3)
	l.rates[5] = Rate{Reads: 190_000, Writes: 1000}
	l.run(t, 120)
	if n := len(l.state.Shards[5].Members); n != 4 {
		t.Fatalf("a shard with 190,000 reads a second has %d members: %v", n, l.asked)
	}
	l.rates[5].Reads = 450_000
	l.run(t, 120)
	if n := len(l.state.Shards[5].Members); n != 6 {
		t.Fatalf("a shard with 450,000 reads a second has %d members: %v", n, l.asked)
	}
	l.rates[5].Reads = 1000
	l.run(t, 600)
	if n := len(l.state.Shards[5].Members); n != 3 {
		t.Fatalf("a shard with 1,000 reads a second has %d members: %v", n, l.asked)
	}
}

func TestChainsAreNoLongerThanThereAreNodes(t *testing.T) {
	l := newLoaded(6, 16, 3)
	l.rates[5] = Rate{Reads: 900_000}
	l.run(t, 120)
	for _, id := range []NodeID{1, 2} {
		l.state.Nodes[id].Standing = Fenced
	}
	members := &l.state.Shards[5].Members
	*members = slices.DeleteFunc(*members, func(id NodeID) bool { return id <= 2 })
	l.asked = nil
	l.run(t, 120)
	if len(l.asked) != 1 || l.asked[0] != (Resize{Shard: 5, Extra: 1}) {
		t.Errorf("6 members, and 4 nodes: %+v", l.asked)
	}
}

func TestLoadWaitsWhileAShardIsCopied(t *testing.T) {
	l := newLoaded(6, 16, 3)
	l.rates[5] = Rate{Reads: 450_000}
	l.state.Shards[0].Learner = l.state.Shards[0].Members[1]
	if commands := l.run(t, 120); len(commands) > 0 {
		t.Errorf("during a copy: %+v", commands)
	}
	l.state.Shards[0].Learner = 0
	if commands := l.run(t, 120); len(commands) == 0 {
		t.Error("nothing after it")
	}
}

func TestWritesKeepChainsShort(t *testing.T) {
	l := newLoaded(6, 16, 3)
	l.rates[5] = Rate{Reads: 200_000, Writes: 100_000}
	l.run(t, 300)
	if n := len(l.state.Shards[5].Members); n != 3 {
		t.Fatalf("a shard with a write for two reads has %d members", n)
	}
}

func TestShardsMoveOffBusyNodes(t *testing.T) {
	l := newLoaded(8, 256, 2)
	for i, shard := range l.state.Shards { // half of all reads are n1's
		if slices.Contains(shard.Members, 1) {
			l.rates[i] = Rate{Reads: 10_000, Writes: 10}
		}
	}
	l.run(t, 3600)
	work, shards := make(map[NodeID]float64), make(map[NodeID]int)
	for i, shard := range l.state.Shards {
		for _, id := range shard.Members {
			work[id] += l.rates[i].Reads / 2
			shards[id]++
		}
	}
	t.Logf("after %d moves the nodes answer %v", len(l.asked), work)
	for id, w := range work {
		if w > busier*80_000+10_000 {
			t.Errorf("%v answers %.0f of 640,000", id, w)
		}
		if n := shards[id]; n < 60 || n > 68 { // else placement would undo it
			t.Errorf("%v has %d shards of 64", id, n)
		}
	}
}

// drawLoad gives every shard a load, some of them much.
func drawLoad(t *rapid.T, l *loaded) {
	for i := range l.rates {
		scale := rapid.SampledFrom([]float64{0, 100, 10_000, 100_000, 400_000}).Draw(t, "scale")
		l.rates[i] = Rate{scale * rapid.Float64Range(0.1, 2).Draw(t, "reads"), scale * rapid.Float64Range(0, 1).Draw(t, "writes")}
	}
}

func TestSteadyLoadIsLeftAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLoaded(rapid.IntRange(1, 9).Draw(t, "nodes"), 8, rapid.IntRange(1, 3).Draw(t, "replicas"))
		drawLoad(t, l)
		l.run(t, 900)
		if late := l.run(t, 200); len(late) > 0 {
			t.Fatalf("after a quarter of an hour of the same load: %+v", late)
		}
	})
}

func TestWaveringLoadChangesLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLoaded(rapid.IntRange(3, 9).Draw(t, "nodes"), 8, rapid.IntRange(1, 3).Draw(t, "replicas"))
		drawLoad(t, l)
		base := slices.Clone(l.rates)
		period := rapid.IntRange(1, 100).Draw(t, "period")
		second := 0 // of the whole load: where one stretch of it began anew, a high could last for two periods
		waver := func(seconds int, by float64) (commands []Command) {
			for range seconds {
				factor := 1 + by
				if second/period%2 == 1 {
					factor = 1 - by
				}
				second++
				for shard := range base {
					l.rates[shard] = Rate{base[shard].Reads * factor, base[shard].Writes}
				}
				commands = append(commands, l.second(t)...)
			}
			return commands
		}
		// A fifth up and down, wherever a threshold lies: it settles.
		waver(1800, 0.2)
		if late := waver(300, 0.2); len(late) > 4 {
			t.Fatalf("a load that wavers by a fifth every %d s still leads to %+v", period, late)
		}
		// From almost nothing to twice as much: no shard changes more than twice in a cool-down.
		changes := make(map[uint16]int)
		for _, c := range waver(600, 0.95) {
			switch c := c.(type) {
			case Resize:
				changes[c.Shard]++
			case MoveShard:
				changes[c.Shard]++
			}
		}
		for shard, n := range changes {
			if n > 20 {
				t.Fatalf("shard %d changed %d times in 10 minutes", shard, n)
			}
		}
	})
}

// TestNothingIsSentToAndFro: of two busy nodes one has the reads, which waver by a fifth, and the other the writes. In turn
// each does more. The one shard that could move does not go to and fro.
func TestNothingIsSentToAndFro(t *testing.T) {
	l := newLoaded(3, 4, 2)
	for i, members := range [][]NodeID{{1}, {2}, {1, 3}, {3}} { // a chain of one member cannot move
		l.state.Shards[i].Members = members
	}
	l.rates[1], l.rates[2] = Rate{Writes: 120_000}, Rate{Reads: 400}
	var late []Command
	for second := range 1200 {
		l.rates[0] = Rate{Reads: 144_000}
		if second/60%2 == 1 {
			l.rates[0] = Rate{Reads: 96_000}
		}
		if commands := l.second(t); second >= 600 {
			late = append(late, commands...)
		}
	}
	if len(late) > 0 {
		t.Errorf("after ten minutes: %+v", late)
	}
}

func TestSilentNodesCountForNothing(t *testing.T) {
	loads := NewLoads()
	loads.Report(time.Second, Load{Node: 1, Interval: time.Second, Shards: map[uint16]Rate{3: {Reads: 1000}}})
	loads.Report(time.Second, Load{Node: 2, Interval: 0, Shards: map[uint16]Rate{3: {Reads: 1000}}})
	if r := loads.Hottest(2*time.Second, 5); len(r) != 1 || r[0].Shard != 3 || r[0].Reads != 1000 {
		t.Errorf("%+v", r)
	}
	if _, _, ok := loads.Node(20*time.Second, 1); ok || len(loads.Shards(20*time.Second)) > 0 {
		t.Error("a report of 19 s ago counts")
	}
}
