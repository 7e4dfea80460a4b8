package reconfig

import (
	"testing"
	"time"
)

func grantorState() *State {
	s := &State{Settings: testSettings(4, 3), Nodes: map[NodeID]*Node{}, Shards: make([]Shard, 4), Change: 7, Controllers: threeControllers()}
	for id := NodeID(1); id <= 3; id++ {
		s.Nodes[id] = &Node{ID: id, Name: string('a' + rune(id)), Incarnation: uint64(id), Standing: Up}
	}
	return s
}

func TestGrants(t *testing.T) {
	s := grantorState()
	s.Nodes[2].Standing = Fenced
	s.Nodes[3].Standing = Draining
	g := NewGrantor(s, "c0", 0, 0)
	for _, c := range []struct {
		name        string
		node        NodeID
		incarnation uint64
		granted     bool
	}{
		{"up", 1, 1, true}, {"fenced", 2, 2, false}, {"draining", 3, 3, true},
		{"another incarnation", 1, 9, false}, {"unknown", 8, 8, false},
	} {
		grant, granted := g.Heartbeat(time.Second, Heartbeat{Node: c.node, Incarnation: c.incarnation, Stamp: 99})
		want := Grant{Stamp: 99, Lease: s.Settings.Lease, Majority: 2, SetID: s.Controllers.ID()}
		if granted != c.granted || granted && grant != want {
			t.Errorf("%s: %v, %+v", c.name, granted, grant)
		}
	}
}

// TestLeaseLeft: the answer comes once the change is known, and is the time that earlier grants may last on a slow clock.
func TestLeaseLeft(t *testing.T) {
	g := NewGrantor(grantorState(), "c0", 0, 0)
	const now = time.Second
	heartbeat := Heartbeat{Node: 1, Incarnation: 1, Stamp: 5}
	g.Heartbeat(now, heartbeat)
	if _, applied := g.LeaseLeft(now, 8, []NodeID{1}); applied {
		t.Error("the change is not known")
	}
	fenced := *grantorState().Nodes[1]
	fenced.Standing, fenced.FencedBy = Fenced, 8
	g.Apply(Change{Number: 8, Nodes: []Node{fenced}})
	if _, granted := g.Heartbeat(now+ms, heartbeat); granted {
		t.Error("a grant after the fence")
	}
	for _, c := range []struct{ after, left time.Duration }{{10 * ms, 56 * ms}, {66 * ms, 0}, {time.Hour, 0}} {
		if left, applied := g.LeaseLeft(now+c.after, 8, []NodeID{1, 2}); !applied || left != c.left {
			t.Errorf("%v later: %v, %v left, want %v", c.after, applied, left, c.left)
		}
	}
	if left, _ := g.LeaseLeft(now, 8, []NodeID{2}); left != 0 {
		t.Errorf("%v left of a node that was granted nothing", left)
	}
	back := fenced
	back.Standing = Up
	g.Apply(Change{Number: 9, Nodes: []Node{back}})
	if _, granted := g.Heartbeat(now+ms, heartbeat); !granted {
		t.Error("no grant for a node that is up again")
	}
}

// TestRestartedControllerRemembersNothing: its earlier grants may last still.
func TestRestartedControllerRemembersNothing(t *testing.T) {
	g := NewGrantor(grantorState(), "c0", time.Hour, 0)
	if left, applied := g.LeaseLeft(time.Hour+6*ms, 7, []NodeID{1}); !applied || left != lasts(grantorState().Settings.LeaseMax)-6*ms {
		t.Errorf("%v, %v", applied, left)
	}
}

// threeControllers are those of most tests.
func threeControllers() ControllerSet { return FormedControllers("c0", "c1", "c2") }

func TestMajority(t *testing.T) {
	for controllers, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		set := ControllerSet{Members: make([]Controller, controllers)}
		if got := set.Majority(); got != want {
			t.Errorf("of %d: %d, want %d", controllers, got, want)
		}
	}
}
