package core

import (
	"slices"
	"testing"
)

// TestHistory: an etcd whose cluster, timeline or revision is not what was known has another history.
func TestHistory(t *testing.T) {
	at := func(rev int64) Answer { return Answer{Rev: rev} }
	missing, away := Answer{Status: Miss}, Answer{Status: Away}
	for name, c := range map[string]struct {
		timeline string // of the gateway
		seen     Seen
		want     Continuity
	}{
		"as it was":                 {"", Seen{20, at(19), 7, "", 20}, Same},
		"in a timeline":             {"a", Seen{20, at(19), 7, "a", 21}, Same},
		"without a revision object": {"", Seen{20, missing, 7, "", 20}, Same},
		"without the chain":         {"", Seen{20, away, 7, "", 20}, Same},
		"another cluster":           {"", Seen{20, at(19), 8, "", 20}, OtherCluster},
		"another timeline":          {"a", Seen{20, at(19), 7, "b", 30}, OtherTimeline},
		"the first timeline":        {"", Seen{20, at(19), 7, "b", 30}, OtherTimeline},
		"below what etcd had":       {"", Seen{20, away, 7, "", 19}, Older},
		"below the chain":           {"", Seen{10, at(20), 7, "", 19}, Older},
		"the name is gone":          {"a", Seen{20, at(21), 7, "", 21}, OtherTimeline},
		"of before the timeline":    {"a", Seen{20, at(21), 7, "", 20}, OtherTimeline},
	} {
		t.Run(name, func(t *testing.T) {
			h := History{Cluster: 7, Timeline: c.timeline}
			if got := h.Compare(&c.seen); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// TestSessionsBeginInTheirTimeline: a gateway that does not know yet that etcd was restored gets no session.
func TestSessionsBeginInTheirTimeline(t *testing.T) {
	for _, timeline := range []string{"", "a"} {
		g := New(Options{Name: "g", Prefix: "own/"})
		g.Within(timeline)
		g.Start()
		call := only[EtcdCall](t, g.Effects())
		named := false
		for _, c := range call.Request.If {
			named = named || c.Key == "own/"+TimelineName && (timeline == "" && c.Kind == CreateIs && c.Rev == 0 ||
				timeline != "" && c.Kind == ValueIs && c.Value == timeline)
		}
		if !named {
			t.Errorf("timeline %q: conditions %+v", timeline, call.Request.If)
		}
		g.Returned(call.ID, &Result{Rev: 9}) // etcd has another timeline
		if g.Serving() || g.Lease() != "g.2" {
			t.Errorf("timeline %q: the gateway goes on", timeline)
		}
	}
}

// TestTenure: a session that was not extended in time is over for good, and messages are shown only after the chain's
// revision was compared.
func TestTenure(t *testing.T) {
	const lease = 100
	compared, away := &Seen{Chain: Answer{Status: Miss}}, &Seen{Chain: Answer{Status: Away}}
	var never Tenure
	if never.Over(1000) || never.Lasts(1000) || never.Reads() {
		t.Error("a session without a lease has ended, or lasts")
	}
	var s Tenure
	for i, step := range []struct {
		do                 func()
		now                int64
		over, lasts, reads bool
	}{
		{func() { s.Begin(10, lease) }, 99, false, false, false},
		{func() { s.Extend(20, 15, lease, away) }, 104, false, false, false},
		{func() { s.Extend(30, 25, lease, compared) }, 114, false, true, true},
		{func() { s.Extend(60, 50, lease, away) }, 139, false, true, true},
		{func() {}, 140, true, false, true},
		{func() { s.Extend(141, 139, lease, compared) }, 142, true, false, true}, // etcd may have been restored
	} {
		if step.do(); s.Over(step.now) != step.over || s.Lasts(step.now) != step.lasts || s.Reads() != step.reads {
			t.Errorf("step %d: over %v, lasts %v, reads %v", i, s.Over(step.now), s.Lasts(step.now), s.Reads())
		}
	}
}

// TestPushInTime: a revision is neither pushed nor shown when the session has not lasted, even if the push is under
// way. What waited before another session goes on when that began at its revision or later, or when a member of etcd
// has the timeline still.
func TestPushInTime(t *testing.T) {
	lasts, recent := true, false
	g := served("k", instanceOf(10, 0))
	g.options.Lasts, g.options.Recent = func() bool { return lasts }, func() bool { return recent }
	g.life.create = 5
	g.Reveal(1, 20)
	push := only[ChainCall](t, g.Effects())
	if lasts = false; g.Timely(20) {
		t.Error("the push is tried again")
	}
	g.Answered(push.ID, Answer{Rev: 20})
	g.Reveal(2, 30)
	if effects := g.Effects(); len(effects) > 0 || g.Shows(Answers, 20) {
		t.Fatalf("after the session's time: %+v", effects)
	}
	lasts, g.life = true, &life{lease: "g.2", create: 25, known: true}
	g.pushAgain()
	if shown := only[Revealed](t, g.Effects()); shown.ID != 1 {
		t.Fatalf("%d is shown", shown.ID) // 30 is above etcd's revision, for all that is known
	}
	g.Looked(29, false, true)
	recent = true
	g.Looked(31, false, false)
	if g.pushAgain(); g.Newest() != 0 {
		t.Error("the timeline was another's at 31, and 30 is pushed")
	}
	g.Looked(30, false, true)
	g.pushAgain()
	if push := only[ChainCall](t, g.Effects()); push.Op.Kind != Max || push.Op.Rev != 30 {
		t.Errorf("%+v", push.Op)
	}
	recent = false
	g.Looked(32, false, false) // etcd may have been restored since the look before
	if recent = true; g.Newest() != 0 {
		t.Error("an old look counts")
	}
}

// TestPlacesAreOfOneTimeline: a gateway that has not noticed that etcd was restored does not change the directory,
// which names the objects of another history.
func TestPlacesAreOfOneTimeline(t *testing.T) {
	for _, timeline := range []string{"", "a"} {
		instance := instanceOf(10, 0)
		g := served("k", instance)
		g.Within(timeline)
		conds := g.inTimeline()
		g.Unplace("k")
		look := only[EtcdCall](t, g.Effects())
		entry := g.names.directory + "k"
		there := map[string]KV{
			entry: {Value: entryOf(instance, "g.1"), Mod: 11}, g.names.count: {Value: CountOf(1, timeline), Mod: 11},
		}
		g.Returned(look.ID, &Result{Rev: 12, Held: true, KVs: there})
		remove := only[ChainCall](t, g.Effects())
		g.Answered(remove.ID, Answer{Status: Gone})
		leave := only[EtcdCall](t, g.Effects())
		if !slices.Contains(leave.Request.If, conds[0]) {
			t.Errorf("timeline %q: conditions %+v", timeline, leave.Request.If)
		}
		g.Returned(leave.ID, &Result{Rev: 12, KVs: there}) // etcd has another timeline
		if done := only[Placed](t, g.Effects()); done.Err == nil {
			t.Errorf("timeline %q: %+v", timeline, done)
		}
		g.enter(&round{life: g.life, keys: []*placement{{key: "l", entry: g.names.directory + "l"}}})
		if enter := only[EtcdCall](t, g.Effects()); !slices.Contains(enter.Request.If, conds[0]) {
			t.Errorf("timeline %q: conditions %+v", timeline, enter.Request.If)
		}
	}
}

// TestPlacesAreFresh: a placement whose instance an object has already, or that is older, makes no object: etcd was
// restored since that object was made, and its value may be lost.
func TestPlacesAreFresh(t *testing.T) {
	for _, more := range []int64{-1, 0, 1} {
		g := served("other", instanceOf(10, 0))
		g.life.placing = make(map[string]bool)
		g.Place("k")
		look := only[EtcdCall](t, g.Effects())
		g.Returned(look.ID, &Result{Rev: 20, Held: true, KVs: map[string]KV{g.names.count: {Value: CountOf(1, ""), Mod: 11}}})
		read := only[ChainCall](t, g.Effects())
		left := Object{Instance: instanceOf(20, 0) + more, Entry: Entry{State: Value, Rev: 19}}
		g.Answered(read.ID, Answer{Object: left})
		effects := g.Effects()
		if more < 0 {
			if create := only[ChainCall](t, effects); create.Op.Kind != Create {
				t.Errorf("beside an older object: %v", create.Op.Kind)
			}
			continue
		}
		if done := only[Placed](t, effects); done.Err == nil {
			t.Errorf("an object of %+d: %+v", more, done)
		}
	}
}
