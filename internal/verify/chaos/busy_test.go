package chaos

import (
	"maps"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// stateOf returns a state with one shard with the given members. Nodes 1 to 3 are named a to c.
func stateOf(change uint64, members ...reconfig.NodeID) *reconfig.State {
	s := &reconfig.State{Settings: reconfig.Settings{Replicas: 3}, Change: change,
		Shards: []reconfig.Shard{{Members: members}}, Nodes: map[reconfig.NodeID]*reconfig.Node{}}
	for id, name := range []string{"", "a", "b", "c"} {
		s.Nodes[reconfig.NodeID(id)] = &reconfig.Node{ID: reconfig.NodeID(id), Name: name, Standing: reconfig.Up}
	}
	return s
}

func changeTo(number uint64, learner reconfig.NodeID, members ...reconfig.NodeID) reconfig.Change {
	return reconfig.Change{Number: number, Shards: map[uint16]reconfig.Shard{0: {Members: members, Learner: learner}}}
}

func observer(live func(*reconfig.Node) bool) *durable {
	return &durable{state: make(chan struct{}), live: live}
}

// TestDurableStateIsCountedAtEveryChange expects each change to count once even if several
// controllers report it. A learner is not a copy.
func TestDurableStateIsCountedAtEveryChange(t *testing.T) {
	d := observer(nil)
	d.Loaded(store.Formation{}, stateOf(4, 1, 2, 3))
	bar := changeTo(5, 0, 1, 3)
	bar.Nodes = []reconfig.Node{{ID: 2, Name: "b", Standing: reconfig.Fenced, FencedBy: 5}}
	d.Changed(bar)
	d.Changed(bar)
	if suspected, least, _ := d.seen(); suspected != 1 || least != 2 {
		t.Errorf("after a suspicion: %d suspected, %d copies", suspected, least)
	}
	// The record of a fenced node is written again with other shards of its page. That is no new
	// suspicion.
	again := changeTo(6, 3, 1, 3)
	again.Nodes = bar.Nodes
	d.Changed(again)
	d.Changed(changeTo(7, 0, 1, 2, 3))
	if suspected, least, missed := d.seen(); suspected != 1 || least != 1 || missed != 0 {
		t.Errorf("%d suspected, %d copies, %d changes missed", suspected, least, missed)
	}
	d.Loaded(store.Formation{}, stateOf(9, 1, 2, 3))
	if _, least, missed := d.seen(); least != 1 || missed != 2 {
		t.Errorf("after a reload: %d copies, %d changes missed", least, missed)
	}
}

// TestCopiesCountWhileTwoMembersLive expects that a chain may lose dead members, but not a live one
// if fewer than two remain.
func TestCopiesCountWhileTwoMembersLive(t *testing.T) {
	for _, test := range []struct {
		name  string
		live  string
		after []reconfig.NodeID
		least int
	}{
		{"one dead", "ab", []reconfig.NodeID{1, 2}, 2},
		{"two dead", "a", []reconfig.NodeID{1}, 3},
		{"one dead and one suspected", "ab", []reconfig.NodeID{1}, 1},
		{"all live and one suspected", "abc", []reconfig.NodeID{1, 2}, 2},
	} {
		live := map[string]bool{}
		for _, name := range test.live {
			live[string(name)] = true
		}
		d := observer(func(n *reconfig.Node) bool { return live[n.Name] })
		d.Loaded(store.Formation{}, stateOf(1, 1, 2, 3))
		d.Changed(changeTo(2, 0, test.after...))
		if _, least, _ := d.seen(); least != test.least {
			t.Errorf("%s: %d copies, not %d", test.name, least, test.least)
		}
	}
}

// TestMembersThatLive expects that a member does not count as live during a fault, shortly after
// one, or after its state is lost and before it rejoins.
func TestMembersThatLive(t *testing.T) {
	d := &driver{costly: map[string]time.Time{}, emptied: map[string]uint64{}}
	n := &reconfig.Node{Name: "a", Incarnation: 7}
	if !d.lives(n) {
		t.Error("a node without a fault does not live")
	}
	d.active = []*fault{{costs: "a"}}
	if d.lives(n) {
		t.Error("a node lives that a fault strikes")
	}
	d.active, d.costly["a"] = nil, time.Now()
	if d.lives(n) {
		t.Error("a fault is forgotten at once")
	}
	d.costly["a"] = time.Now().Add(-2 * calm)
	if !d.lives(n) {
		t.Error("a fault is never forgotten")
	}
	d.emptied["a"] = n.Incarnation
	if d.lives(n) {
		t.Error("a node lives whose state is lost")
	}
	if n.Incarnation++; !d.lives(n) {
		t.Error("a node that has joined anew does not live")
	}
}

// TestPausesFollowTheirSeed expects that a seed determines a separate schedule for each process,
// with the configured share of stopped time.
func TestPausesFollowTheirSeed(t *testing.T) {
	const share, turns = 0.3, 20_000
	firsts := map[time.Duration]bool{}
	for process := range 3 {
		one, same := newSchedule(share, 7, process), newSchedule(share, 7, process)
		var ran, stopped time.Duration
		for i := range turns {
			run, pause := one.turn()
			if r, p := same.turn(); r != run || p != pause {
				t.Fatalf("process %d, turn %d: %v and %v, then %v and %v", process, i, run, pause, r, p)
			}
			if pause < shortestPause || pause > longestPause {
				t.Fatalf("a pause of %v", pause)
			}
			if i == 0 {
				firsts[pause] = true
			}
			ran, stopped = ran+run, stopped+pause
		}
		if got := stopped.Seconds() / (ran + stopped).Seconds(); got < share-0.02 || got > share+0.02 {
			t.Errorf("process %d is stopped for %.3f of the time", process, got)
		}
	}
	if len(firsts) != 3 {
		t.Errorf("processes share their schedules: %v", maps.Keys(firsts))
	}
}
