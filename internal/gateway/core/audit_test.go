package core

import (
	"slices"
	"testing"
)

// TestAudit: a change of a key is compared with the key's object. It is kept until the object tells who made it.
func TestAudit(t *testing.T) {
	const key, change = "k", int64(30)
	instance := instanceOf(10, 0)
	entry := func(rev int64) Object { return Object{Instance: instance, Entry: Entry{State: Value, Rev: rev}} }
	with := func(edit func(*Object)) Answer {
		o := entry(change - 1)
		edit(&o)
		return Answer{Object: o}
	}
	for name, c := range map[string]struct {
		object     Answer
		past, kept bool
	}{
		"the gateways wrote it":            {Answer{Object: entry(change)}, false, false},
		"a newer one":                      {Answer{Object: entry(change + 1)}, false, false},
		"past the gateways":                {Answer{Object: entry(change - 1)}, true, false},
		"of a history that was lost":       {with(func(o *Object) { o.Floor = change }), false, false},
		"no answer":                        {Answer{Status: Away}, false, true},
		"no object":                        {Answer{Status: Miss}, false, false},
		"a write is under way":             {with(func(o *Object) { o.Bits = 4 }), false, true},
		"the object is not loaded":         {with(func(o *Object) { o.Joining = true }), false, true},
		"the key has a lease":              {with(func(o *Object) { o.State = NotCacheable }), false, false},
		"the directory names another one":  {with(func(o *Object) { o.Instance++ }), false, false},
		"another one, and a write of that": {with(func(o *Object) { o.Instance, o.Bits = o.Instance+1, 4 }), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, a := served(key, instance), Audit{Every: 5}
			a.Changed(1, change)
			if past := g.Compare(&a, key, a.Begin(1), &c.object); past != c.past || (a.unchecked != 0) != c.kept {
				t.Errorf("past the gateways: %v, kept: %v", past, a.unchecked != 0)
			}
		})
	}
	alive, old := false, Answer{Object: entry(change - 1)}
	g, a := served(key, instance), Audit{Every: 5}
	g.options.Alive = func() bool { return alive }
	a.Changed(1, change)
	if g.Compare(&a, key, a.Begin(1), &old) {
		t.Error("other gateways may have written without INTENT, since this one's session may have ended")
	}
	alive = true
	if !g.Compare(&a, key, a.Begin(2), &old) {
		t.Error("the session lasts after all, and the change was forgotten")
	}
}

// TestAuditsAreFew: a key that is written all the time is compared now and then, with its newest change.
func TestAuditsAreFew(t *testing.T) {
	a, at := Audit{Every: 5}, []int64{}
	for now := int64(1); now <= 20; now++ {
		if a.Changed(now, 100+now) {
			if rev := a.Begin(now); rev != 100+now {
				t.Fatalf("at %d: revision %d", now, rev)
			}
			at = append(at, now)
		}
	}
	if !slices.Equal(at, []int64{1, 6, 11, 16}) {
		t.Errorf("compared at %v", at)
	}
}

// TestAuditWithoutChange: a look at a key without a new change is no comparison, so the next change does not wait.
func TestAuditWithoutChange(t *testing.T) {
	a := Audit{Every: 5}
	if rev := a.Begin(1); rev != 0 || !a.Changed(2, 102) {
		t.Errorf("revision %d, and the first change waits", rev)
	}
}

// TestAuditKeepsLaterChange: a change that comes while the object of an older one is read is compared next.
func TestAuditKeepsLaterChange(t *testing.T) {
	instance := instanceOf(10, 0)
	g, a := served("k", instance), Audit{Every: 5}
	a.Changed(1, 30)
	rev := a.Begin(1)
	a.Changed(2, 31)
	g.Compare(&a, "k", rev, &Answer{Object: Object{Instance: instance, Entry: value(30)}})
	if next := a.Begin(3); next != 31 {
		t.Errorf("the next change is %d", next)
	}
}

// TestAuditOfMissingObject: a change of a key that is neither placed nor in the chain is not kept, whether or not the
// session lasts.
func TestAuditOfMissingObject(t *testing.T) {
	g, a := served("another", instanceOf(10, 0)), Audit{Every: 5}
	g.options.Alive = func() bool { return false }
	a.Changed(1, 30)
	if past := g.Compare(&a, "k", a.Begin(1), &Answer{Status: Miss}); past || a.unchecked != 0 {
		t.Errorf("past the gateways: %v, kept: %v", past, a.unchecked != 0)
	}
}

// TestOwns: a gateway answers for the keys that it placed, and for those of gateways that are gone.
func TestOwns(t *testing.T) {
	g := served("k", instanceOf(10, 0))
	s := &Survey{
		Sessions:  map[string]bool{"g.1": true, "h.1": true},
		Directory: map[string]string{"mine": "g.1", "another's": "h.1", "a dead one's": "i.1"},
	}
	for key, want := range map[string]bool{"mine": true, "another's": false, "a dead one's": true, "not placed": false} {
		if g.Owns(s, key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}
