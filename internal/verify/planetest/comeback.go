package planetest

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// kept are the objects of a shard that the node has left: clean ones, dirty ones, and one given up
// before.
var kept = map[string]chain.Object{
	"old":     {Version: 3, Committed: 3, Epoch: 2, Value: []byte("old")},
	"new":     {Version: 5, Committed: 5, Epoch: 7, Value: []byte("new")},
	"same":    {Version: 5, Committed: 5, Epoch: 4, Value: []byte("same")},
	"dirty":   {Version: 6, Committed: 5, Value: []byte("dirty")},
	"never":   {Version: 1, Value: []byte("never")},
	"deleted": {Version: 4, Committed: 4, Epoch: 5, Tombstone: true},
}

// testComeBack expects one node to give up uncommitted writes, and another to list the changes
// after an epoch.
func testComeBack(t *testing.T, open func(*testing.T) Node) {
	p := open(t).Plane
	var shards []uint16
	var objects []dataplane.KeyedObject
	var sessions []dataplane.KeyedSession
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		k := keyOf(name)
		shards = append(shards, shardOf(k))
		objects = append(objects, dataplane.KeyedObject{Key: k, Object: kept[name]})
		sessions = append(sessions, dataplane.KeyedSession{
			Key: chain.SessionKey{Session: 7, Shard: shardOf(k)}, Session: chain.Session{Seq: 1, Version: 1,
				KeyLo: k.Lo, Op: wire.OpPut},
		})
	}
	check(t, p.Import(objects, sessions))
	for _, c := range []struct {
		since uint32
		keys  []wire.Key
		want  []string
	}{
		{since: 0, want: []string{"deleted", "dirty", "never", "new", "old", "same"}},
		{since: 4, want: []string{"deleted", "dirty", "never", "new"}},
		{since: 4, keys: []wire.Key{keyOf("old"), keyOf("absent")},
			want: []string{"deleted", "dirty", "never", "new", "old"}},
		{since: 9, want: []string{"dirty", "never"}},
	} {
		w := dataplane.Wanted{Since: make(map[uint16]uint32), Keys: c.keys}
		for _, shard := range shards {
			w.Since[shard] = c.since
		}
		if got := exported(t, p, w); !slices.Equal(got, c.want) {
			t.Errorf("after epoch %d: %v, want %v", c.since, got, c.want)
		}
	}
	testDoubt(t, p, shards, sessions)
	check(t, p.Sessions(func(k chain.SessionKey, s chain.Session) bool {
		t.Errorf("session %v is still there: %+v", k, s)
		return true
	}))
	usage, err := p.Usage()
	check(t, err)
	if usage.Objects != len(kept) || usage.Sessions != 0 {
		t.Errorf("usage is %+v", usage)
	}
}

// testDoubt expects a node to give up what is not committed in some shards, and all sessions.
func testDoubt(t *testing.T, p dataplane.Plane, shards []uint16, sessions []dataplane.KeyedSession) {
	t.Helper()
	gone := make(map[chain.SessionKey]chain.Session)
	note := func(k chain.SessionKey, s chain.Session) { gone[k] = s }
	dirty, err := p.Doubtful(shards)
	check(t, err)
	doubted, err := p.Doubt(shards, note)
	check(t, err)
	for name, want := range kept {
		if !want.Clean() {
			want = chain.Object{}
		}
		o, found, err := p.Object(keyOf(name))
		check(t, err)
		same := o.Version == want.Version && o.Committed == want.Committed && o.Epoch == want.Epoch
		if !found || !same || string(o.Value) != string(want.Value) {
			t.Errorf("%s is %+v, want %+v", name, o, want)
		}
	}
	for _, s := range sessions {
		if gone[s.Key] != s.Session {
			t.Errorf("session %v was %+v before it was deleted, want %+v", s.Key, gone[s.Key], s.Session)
		}
	}
	clear(gone)
	again, err := p.Doubt(shards, note)
	check(t, err)
	if len(gone) != 0 {
		t.Errorf("sessions were deleted twice: %v", gone)
	}
	empty, err := p.Doubtful(shards)
	check(t, err)
	older := chain.Object{Version: 4, Committed: 3, Value: []byte("older")}
	check(t, p.Import([]dataplane.KeyedObject{{Key: keyOf("dirty"), Object: older}}, nil))
	written, err := p.Doubtful(shards)
	check(t, err)
	want := inOrder([]wire.Key{keyOf("dirty"), keyOf("never")})
	for how, got := range map[string][]wire.Key{
		"before": dirty, "at first": doubted, "again": again, "empty": empty, "after an older write": written,
	} {
		if !slices.Equal(inOrder(got), want) {
			t.Errorf("%s: %v, want %v", how, got, want)
		}
	}
}

func inOrder(keys []wire.Key) []wire.Key {
	return slices.SortedFunc(slices.Values(keys), func(a, b wire.Key) int {
		return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
	})
}

// exported returns the names of the objects that a plane exports.
func exported(t *testing.T, p dataplane.Plane, w dataplane.Wanted) []string {
	t.Helper()
	found := make(map[string]bool)
	check(t, p.Export(w, func(k wire.Key, o chain.Object) error {
		for name, want := range kept {
			if keyOf(name) == k {
				found[name] = true
				if o.Epoch != want.Epoch || o.Version != want.Version {
					t.Errorf("%s is exported as %+v, want %+v", name, o, want)
				}
			}
		}
		return nil
	}, func(chain.SessionKey, chain.Session) error { return nil }))
	return slices.Sorted(maps.Keys(found))
}
