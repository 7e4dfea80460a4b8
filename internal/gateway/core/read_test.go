package core

import "testing"

// served makes a gateway that serves, with one key placed at a generation.
func served(key string, gen int64) *Gateway {
	g := New(Options{Name: "g"})
	g.life = &life{
		lease: "g.1", create: 1, mod: 1, serving: true, seen: drawn(gen),
		placed: map[string]int64{key: gen}, closed: make(map[string]bool), keys: make(map[string]*own),
		suspects: make(map[string]bool), cleaning: make(map[string]bool), placing: make(map[string]bool),
		ranged: make(map[*write]bool),
	}
	return g
}

// TestReadOfAClosedKey: another gateway takes all keys out of the directory while a read is under way. After this
// gateway has acknowledged that, writes set no bits. So the read must not be answered from the object.
func TestReadOfAClosedKey(t *testing.T) {
	const key, old, written = "k", int64(9), int64(12)
	gen, later := generation(10, 0), generation(11, 1)
	for name, c := range map[string]struct {
		change Change
		hit    bool
	}{
		"unchanged":    {Change{Rev: 11, Key: "another", Value: entryOf(later, "h.1")}, true},
		"closed":       {Change{Rev: 11, Key: key, Value: entryOf(gen, "h.1") + closedMark}, false},
		"removed":      {Change{Rev: 11, Key: key}, false},
		"placed again": {Change{Rev: 11, Key: key, Value: entryOf(later, "h.1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := served(key, gen)
			g.Get(1, key)
			revision := only[ChainCall](t, g.Effects())
			g.DirectoryChanged(c.change.Rev, []Change{c.change})
			g.Effects() // the acknowledgement
			g.Answered(revision.ID, Answer{Rev: written})
			object := only[ChainCall](t, g.Effects())
			g.Answered(object.ID, Answer{Object: Object{Gen: gen, Entry: Entry{State: Value, Rev: old, Value: "old"}}})
			effects := g.Effects()
			if reply, hit := effects[0].(Reply); len(effects) != 1 || hit != c.hit || hit && reply.Rev != written {
				t.Errorf("effects %+v, want a hit: %v", effects, c.hit)
			}
		})
	}
}

// only returns the one effect.
func only[E Effect](t *testing.T, effects []Effect) E {
	t.Helper()
	var e E
	ok := len(effects) == 1
	if ok {
		e, ok = effects[0].(E)
	}
	if !ok {
		t.Fatalf("effects %+v", effects)
	}
	return e
}
