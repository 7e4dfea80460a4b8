package core

import (
	"slices"
	"strconv"
	"testing"
)

// served makes a gateway that serves, with one key placed at an instance.
func served(key string, instance int64) *Gateway {
	g := New(Options{Name: "g"})
	g.life = &life{
		lease: "g.1", create: 1, mod: 1, serving: true, seen: instance >> instanceBits,
		placed: map[string]int64{key: instance}, known: true, bound: true, keys: make(map[string]*own),
		suspects: make(map[string]bool), cleaning: make(map[string]bool), placing: make(map[string]bool),
		ranged: make(map[*write]bool),
	}
	return g
}

// counted is the count that a gateway wrote.
func counted(rev int64, entries int) Change {
	return Change{Rev: rev, Count: true, Value: CountOf(entries, "")}
}

// TestReadOfAClosedKey: the directory is closed, or a client of etcd has changed it, while a read is under way.
// After this gateway has acknowledged that, writes set no bits. So the read must not be answered from the object.
func TestReadOfAClosedKey(t *testing.T) {
	const key, old, written = "k", int64(9), int64(12)
	instance, later := instanceOf(10, 0), instanceOf(11, 1)
	for name, c := range map[string]struct {
		changes []Change
		hit     bool
	}{
		"unchanged":               {[]Change{{Rev: 11, Key: "another", Value: entryOf(later, "h.1")}, counted(11, 2)}, true},
		"closed":                  {[]Change{{Rev: 11, Count: true, Value: closedCount + " "}}, false},
		"emptied":                 {[]Change{{Rev: 11, Key: key}, counted(11, 0)}, false},
		"removed":                 {[]Change{{Rev: 11, Key: key}, counted(11, 1)}, false},
		"placed again":            {[]Change{{Rev: 11, Key: key, Value: entryOf(later, "h.1")}, counted(11, 1)}, false},
		"deleted by a client":     {[]Change{{Rev: 11, Key: "another"}}, false},
		"the count is deleted":    {[]Change{{Rev: 11, Count: true}}, false},
		"the count of a timeline": {[]Change{{Rev: 11, Count: true, Value: CountOf(1, "another")}}, false},
		"another and not counted": {[]Change{{Rev: 11, Key: "another", Value: entryOf(later, "h.1")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := served(key, instance)
			var r Round
			began, _ := g.BeginRead(key)
			r.Join(key, began)
			g.DirectoryChanged(11, c.changes)
			r.Revision(Answer{Rev: written})
			r.Objects([]Answer{{Object: Object{Instance: instance, Entry: Entry{State: Value, Rev: old, Value: "old"}}}})
			if rev, hit := g.Judge(&r, 0); hit != c.hit || hit && rev != written {
				t.Errorf("revision %d, hit %v, want a hit: %v", rev, hit, c.hit)
			}
		})
	}
}

// TestRound walks through rounds: what is read next, and which keys are hits, with which revisions.
func TestRound(t *testing.T) {
	instance, away := instanceOf(10, 0), Answer{Status: Away}
	found := func(rev int64) Answer {
		return Answer{Object: Object{Instance: instance, Entry: Entry{State: Value, Rev: rev}}}
	}
	g := served("a", instance)
	for i := range 3 {
		g.life.placed[strconv.Itoa(i)] = instance
	}
	for name, c := range map[string]struct {
		keys     int
		near     []Answer // the revision and objects
		revision *Answer  // nil: it is not asked for
		missing  []string // keys that are asked for
		hits     []int64  // revisions
		nearby   int
	}{
		"through the network":    {1, nil, &Answer{Rev: 20}, []string{"0"}, []int64{20}, 0},
		"nearby":                 {2, []Answer{{Rev: 20}, found(5), found(30)}, nil, nil, []int64{20, 30}, 2},
		"some nearby":            {3, []Answer{{Rev: 20}, found(5), away, found(30)}, nil, []string{"1"}, []int64{20, 20, 30}, 2},
		"nothing but a revision": {1, []Answer{{Rev: 20}, away}, nil, []string{"0"}, []int64{20}, 0},
		"no revision nearby":     {1, []Answer{away, found(5)}, &Answer{Rev: 21}, []string{"0"}, []int64{21}, 0},
		"no revision":            {2, nil, &away, nil, []int64{0, 0}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var r Round
			for i := range c.keys {
				r.Join(strconv.Itoa(i), instance)
			}
			if c.near != nil {
				r.Nearby(c.near[0], c.near[1:])
			}
			if kind, more := r.Next(); more && kind == ReadRevision {
				if c.revision == nil {
					t.Fatal("the revision is asked for again")
				}
				r.Revision(*c.revision)
			} else if c.revision != nil {
				t.Fatal("the revision is not asked for")
			}
			var missing []string
			if kind, more := r.Next(); more && kind == ReadObject {
				missing = r.Missing()
				answers := make([]Answer, len(missing))
				for i := range answers {
					answers[i] = found(7)
				}
				r.Objects(answers)
			}
			if _, more := r.Next(); more || !slices.Equal(missing, c.missing) {
				t.Fatalf("%v are asked for, want %v; more %v", missing, c.missing, more)
			}
			nearby := 0
			for i, want := range c.hits {
				rev, hit := g.Judge(&r, i)
				if rev != want || hit != (want > 0) {
					t.Errorf("key %d: revision %d, want %d", i, rev, want)
				}
				if r.Near(i) {
					nearby++
				}
			}
			if nearby != c.nearby {
				t.Errorf("%d objects came from a node on the machine, want %d", nearby, c.nearby)
			}
		})
	}
}

// TestKeysOfARound: keys, few or many, have the index of their first read and the newest instance of all.
func TestKeysOfARound(t *testing.T) {
	const instance = 10
	var r Round
	for _, instance := range []int64{instance - 1, instance, instance - 2} { // few keys, and many
		for i := range 3 * fewKeys {
			if at := r.Join(strconv.Itoa(i), instance); at != i {
				t.Fatalf("key %d has index %d", i, at)
			}
		}
	}
	if len(r.Keys()) != 3*fewKeys || slices.ContainsFunc(r.instances, func(g int64) bool { return g != instance }) {
		t.Errorf("%d keys of instances %v", len(r.Keys()), r.instances)
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
