package reconfig

import (
	"errors"
	"testing"
	"time"
)

// TestControllerSteps (L7): the set changes by one controller at a time, and a change is one of the present set.
func TestControllerSteps(t *testing.T) {
	old := FormedControllers("a", "b", "c")
	controller := func(address string) Controller { return Controller{Address: address} }
	joining := old
	joining.Joining = controller("d")
	both := old.With(controller("d"))
	both.Joining = controller("d")
	two := FormedControllers("d", "b", "c")
	for _, c := range []struct {
		name string
		next ControllerSet
		ok   bool
	}{
		{"none", ControllerSet{}, true},
		{"the same", old, true},
		{"one joins", joining, true},
		{"one more", old.With(controller("d")), true},
		{"one less", old.Without(controller("b")), true},
		{"one replaced by another", two, false},
		{"two more", FormedControllers("a", "b", "c", "d", "e"), false},
		{"two less", FormedControllers("a"), false},
		{"nobody", ControllerSet{Since: 8}, false},
		{"one twice", FormedControllers("a", "b", "c", "c"), false},
		{"one that is and joins", both, false},
	} {
		if c.next.Since == 0 && len(c.next.Members) > 0 {
			c.next.Since = 8
		}
		if err := c.next.follows(&old, 8); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	stale := old
	stale.Since = 7
	if stale.follows(&old, 8) == nil {
		t.Error("a set of another change")
	}
}

// TestGrantsOfTheSet (L7): a controller that is no member grants nothing, and one that becomes one grants as one of the set.
func TestGrantsOfTheSet(t *testing.T) {
	s := grantorState()
	g := NewGrantor(s, "c3", 0, 0)
	b := Heartbeat{Node: 1, Incarnation: 1, Stamp: 5}
	if _, granted := g.Heartbeat(ms, b); granted {
		t.Error("a grant of a controller that is no member")
	}
	set := s.Controllers.With(Controller{Address: "c3"})
	set.Since = 8
	g.Apply(Change{Number: 8, Controllers: set})
	grant, granted := g.Heartbeat(2*ms, b)
	if !granted || grant.Majority != 3 || grant.SetID != set.ID() {
		t.Errorf("%v, %+v", granted, grant)
	}
	set = set.Without(Controller{Address: "c3"})
	set.Since = 9
	g.Apply(Change{Number: 9, Controllers: set})
	if _, granted := g.Heartbeat(3*ms, b); granted {
		t.Error("a grant of a controller that was removed")
	}
	if left, applied := g.LeaseLeft(3*ms, 9, []NodeID{1}); !applied || left <= 0 {
		t.Error("what it granted before still lasts")
	}
}

// changing is a leader whose changes are stored at once.
type changing struct {
	t *testing.T
	*Leader
	waits []LeaseWait
}

func (c *changing) carryOut() {
	for effects := c.Effects(); len(effects) > 0; effects = c.Effects() {
		for _, e := range effects {
			switch e := e.(type) {
			case Store:
				c.Stored(c.last, e.Change.Number, true)
			case LeaseWait:
				c.waits = append(c.waits, e)
			}
		}
	}
}

func (c *changing) set(next ControllerSet) error {
	next.Since = c.state.Controllers.Since
	_, err := c.Operate(c.last, SetControllers{next})
	c.carryOut()
	return err
}

func (c *changing) confirm(nodes ...NodeID) {
	for _, id := range nodes {
		c.Heartbeat(c.last, Heartbeat{Node: id, Incarnation: uint64(id), ControllersSince: c.state.Controllers.Since})
		c.carryOut()
	}
}

// TestChangesOfControllersOverlap (L7): the next change of the members waits until a majority has applied the one before, no
// lease of the set before that is left, and all nodes follow.
func TestChangesOfControllersOverlap(t *testing.T) {
	l := &changing{t: t, Leader: NewLeader(1, grantorState(), Options{}, 0)}
	l.carryOut()
	if err := l.set(l.state.Controllers.With(Controller{Address: "c3"})); err != nil {
		t.Fatal(err)
	}
	since := l.state.Controllers.Since
	five := l.state.Controllers.With(Controller{Address: "c4"})
	wait := func(why string) {
		t.Helper()
		if err := l.set(five); !errors.Is(err, ErrControllersChange) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if len(l.waits) != 1 || l.waits[0].Change != since {
		t.Fatalf("controllers are asked %+v", l.waits)
	}
	l.confirm(1, 2, 3)
	wait("nobody is known to have applied the last change")
	for _, controller := range []string{"c0", "c1", "c9"} {
		l.LeaseLeft(l.last, controller, since, 0)
	}
	l.later(lasts(l.state.Settings.longest()) + ms)
	wait("two of four, and a stranger")
	l.LeaseLeft(l.last, "c3", since, 0)
	wait("a lease may be left")
	l.later(lasts(l.state.Settings.longest()) + ms)
	if err := l.set(five); err != nil {
		t.Fatal(err)
	}
	if stale := l.state.Controllers.Without(Controller{Address: "c1"}); l.state.Controllers.Since != since {
		if _, err := l.Operate(l.last, SetControllers{stale}); !errors.Is(err, ErrControllersChange) {
			t.Errorf("of an older set: %v", err)
		}
	}

	since = l.state.Controllers.Since
	for _, controller := range []string{"c0", "c1", "c2"} {
		l.LeaseLeft(l.last, controller, since, 0)
	}
	l.later(lasts(l.state.Settings.longest()) + ms)
	five = l.state.Controllers.Without(Controller{Address: "c0"})
	l.confirm(1, 2)
	wait("node 3 does not follow")
	l.confirm(3)
	if err := l.set(five); err != nil {
		t.Error(err)
	}
}

// later lets time pass, in which all nodes send heartbeats.
func (c *changing) later(d time.Duration) {
	for end := c.last + d; c.last < end; {
		c.Tick(c.last + 5*ms)
		for id, n := range c.nodes {
			c.Heartbeat(c.last, Heartbeat{Node: id, Incarnation: uint64(id), ControllersSince: n.controllersSince})
		}
		c.carryOut()
	}
}

// TestFenceCountsThePresentSet (L3, L7): a fence that began under one set of controllers asks all of the next set, and
// ends with a majority of it.
func TestFenceCountsThePresentSet(t *testing.T) {
	s := grantorState()
	s.Controllers = FormedControllers("c0")
	s.Nodes[1].Standing, s.Nodes[1].FencedBy = Fenced, 7
	l := &changing{t: t, Leader: NewLeader(1, s, Options{}, 0)}
	l.carryOut()
	fence := l.waits[0].Change
	if err := l.set(l.state.Controllers.With(Controller{Address: "c1"})); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, w := range l.waits {
		if w.Change == fence && len(w.Nodes) == 1 {
			asked++
		}
	}
	if asked != 2 {
		t.Errorf("controllers were asked %d times for the fence", asked)
	}
	l.LeaseLeft(l.last, "c0", fence, 0)
	if l.nodes[1].leaseOver {
		t.Error("one of two controllers is no majority")
	}
	l.LeaseLeft(l.last, "c1", fence, 0)
	if !l.nodes[1].leaseOver {
		t.Error("both have answered")
	}
}
