package core

import (
	"errors"
	"testing"
)

// TestWithoutASession: answers of a gateway without a session are shown if nothing was placed at their revision or after it.
func TestWithoutASession(t *testing.T) {
	g := New(Options{Name: "g", Prefix: "own/"})
	g.Looked(20, false, false)
	if g.Shows(Answers, 20) || g.Shows(Events, 20) {
		t.Error("a key is placed, and nothing is pushed")
	}
	g.Looked(30, true, false)
	g.Looked(40, false, false)
	g.Looked(25, true, false) // by a member that is behind
	for rev, want := range map[int64]bool{20: true, 30: true, 31: false, 40: false} {
		if g.Shows(Answers, rev) != want {
			t.Errorf("revision %d is shown: %v", rev, !want)
		}
	}
}

// TestUnplaced: a gateway without a session writes if the count says that nothing is placed, or if etcd is unused: it has
// no keys of gateways but the name of a chain and the mark, and no lease of a session.
func TestUnplaced(t *testing.T) {
	none, some := CountOf(0, "timeline"), CountOf(10, "timeline")
	for name, c := range map[string]struct {
		kvs    map[string]string
		leases []int64
		want   bool
	}{
		"fresh":                    {nil, nil, true},
		"a client's keys":          {map[string]string{"": "", "own": "", "own0": "", "~": ""}, nil, true},
		"the chain's name":         {map[string]string{"own/chain": "1 a"}, nil, true},
		"the mark":                 {map[string]string{"own/began": "other"}, nil, true},
		"none":                     {map[string]string{"own/directory.count": none, "own/session/g.1": ""}, []int64{1}, true},
		"none, of no timeline":     {map[string]string{"own/directory.count": CountOf(0, ""), "own/began": ""}, nil, true},
		"one":                      {map[string]string{"own/directory.count": CountOf(1, "")}, nil, false},
		"ten":                      {map[string]string{"own/directory.count": some}, nil, false},
		"closed":                   {map[string]string{"own/directory.count": closedCount + " timeline"}, nil, false},
		"deleted":                  {map[string]string{"own/directory/": "", "own/era": "timeline"}, nil, false},
		"all but a session":        {map[string]string{"own/session/g.1": ""}, nil, false},
		"all but a revision":       {map[string]string{"own/ack/g.1": "", "own/chain": ""}, nil, false},
		"all but an exclusion":     {map[string]string{"own/excluded/k": ""}, nil, false},
		"all, and a session":       {nil, []int64{1}, false},
		"all but the beginning":    {map[string]string{"own/began": "g.1"}, []int64{1}, false},
		"all but the chain's name": {map[string]string{"own/chain": "1 a"}, []int64{1}, false},
	} {
		if etcd := newStore(c.kvs, c.leases...); etcd.writes(New(Options{Prefix: "own/"})) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// TestUnusedUntilASessionBegins: a gateway that knows that etcd is unused writes while that is so, and asks no more.
// Another session ends it, even if a client of etcd deletes all keys then.
func TestUnusedUntilASessionBegins(t *testing.T) {
	g, etcd := New(Options{Name: "g", Prefix: "own/"}), newStore(nil)
	for range 2 {
		if !etcd.writes(g) {
			t.Fatal("etcd is unused")
		}
	}
	if etcd.asked != 3 {
		t.Errorf("%d requests: the mark is read and written, and the leases are listed", etcd.asked)
	}
	etcd.put("own/began", "other.1")
	if etcd.writes(g) {
		t.Error("a session has begun")
	}
	etcd.kvs = make(map[string]KV)
	if etcd.writes(g) {
		t.Error("it may last")
	}
}

// TestUnusedWithoutSpace: etcd refuses the mark, as it does sessions.
func TestUnusedWithoutSpace(t *testing.T) {
	g, etcd := New(Options{Prefix: "own/"}), newStore(nil)
	if etcd.full = true; !etcd.writes(g) {
		t.Error("etcd is unused")
	}
	if etcd.leases = []int64{1}; etcd.writes(g) {
		t.Error("a session lasts")
	}
}

// TestUnplacedAfterASession: a gateway that has had a session does not take etcd for unused when its keys are gone.
func TestUnplacedAfterASession(t *testing.T) {
	g := New(Options{Name: "g", Prefix: "own/"})
	g.Start()
	if !newStore(nil).writes(g) {
		t.Error("no gateway has used etcd")
	}
	for _, e := range g.Effects() {
		if call, is := e.(EtcdCall); is {
			g.Returned(call.ID, &Result{Held: true, KVs: map[string]KV{"own/" + SessionPrefix + "g.1": {Create: 2, Mod: 2}}})
		}
	}
	g.SessionLost("g.1")
	if newStore(nil).writes(g) || g.Alone() != nil {
		t.Error("another gateway may read objects")
	}
	if !newStore(map[string]string{"own/" + CountName: CountOf(0, "")}).writes(g) {
		t.Error("the directory is empty")
	}
}

// store is an etcd.
type store struct {
	rev    int64
	kvs    map[string]KV
	leases []int64 // of sessions
	full   bool    // it refuses puts
	asked  int
}

func newStore(kvs map[string]string, leases ...int64) *store {
	s := &store{rev: 1, kvs: make(map[string]KV), leases: leases}
	for key, value := range kvs {
		s.put(key, value)
	}
	return s
}

func (s *store) put(key, value string) {
	s.rev++
	s.kvs[key] = KV{Value: value, Create: s.rev, Mod: s.rev}
}

// writes reports whether a gateway without a session writes.
func (s *store) writes(g *Gateway) bool {
	if s.hold(g.IfUnplaced()) {
		return true
	}
	v := g.Vacancy()
	for r, more := v.Next(); more; r, more = v.Next() {
		s.asked++
		v.Took(s.do(&r))
	}
	conditions, ok := v.Conditions()
	return ok && s.hold(conditions)
}

func (s *store) do(r *Request) *Result {
	result := &Result{Held: s.hold(r.If), KVs: s.kvs}
	for _, p := range r.Put {
		if s.full {
			return &Result{Err: errors.New("no space")}
		}
		if result.Held {
			s.put(p.Key, p.Value)
		}
	}
	if result.Rev = s.rev; r.Leases != 0 {
		result.Leases = s.leases
	}
	return result
}

func (s *store) hold(conditions []Cond) bool {
	for _, c := range conditions {
		kv, is := s.kvs[c.Key]
		if c.Kind == ExistsBelow && (!is || kv.Value >= c.Value) || c.Kind == ModIs && kv.Mod != c.Rev {
			return false
		}
		for key := range s.kvs {
			if c.Kind == CreateIs && (key == c.Key || (Span{c.Key, c.End}).Has(key)) {
				return false
			}
		}
	}
	return true
}
