package chain

import (
	"slices"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// TestShardsOutOfRange: a node of 2 shards has the shards 0 and 1.
func TestShardsOutOfRange(t *testing.T) {
	n := New(Options{Shards: 2, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
	c := ShardConfig{Epoch: 1, State: Active, Members: membersOf(1)}
	for number, valid := range map[uint16]bool{0: true, 1: true, 2: false} {
		if err := n.Configure(number, c); (err == nil) != valid {
			t.Errorf("configure %d: %v", number, err)
		}
		if err := n.Grant(number, 1); (err == nil) != valid {
			t.Errorf("grant %d: %v", number, err)
		}
		if err := n.ConfigureAll(map[uint16]ShardConfig{number: c}); (err == nil) != valid {
			t.Errorf("configure all, %d: %v", number, err)
		}
	}
}

// TestDoubtful: of the shards asked for, the objects without a version, and those that are not clean (C8).
func TestDoubtful(t *testing.T) {
	n := New(Options{Shards: 2, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
	for lo, o := range map[uint64]Object{
		2: {Version: 3, Committed: 3}, 4: {Version: 3, Committed: 2}, 6: {}, 7: {Version: 3, Committed: 2},
	} {
		n.PutObject(wire.Key{Lo: lo}, o)
	}
	var found []uint64
	for _, k := range n.Doubtful(func(shard uint16) bool { return shard == 0 }) {
		found = append(found, k.Lo)
	}
	if slices.Sort(found); !slices.Equal(found, []uint64{4, 6}) {
		t.Errorf("doubtful: %v, want 4 and 6", found)
	}
}

// TestMergeSession: the table takes entries up to its size, and the newer state of those that it has.
func TestMergeSession(t *testing.T) {
	n := New(Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 1})
	a, b := SessionKey{Session: 1}, SessionKey{Session: 2}
	for i, step := range []struct {
		key  SessionKey
		seq  uint64
		took bool
		has  uint64 // the number of the entry afterwards
	}{{a, 5, true, 5}, {b, 1, false, 0}, {a, 4, true, 5}, {a, 6, true, 6}} {
		if took := n.MergeSession(step.key, Session{Seq: step.seq}); took != step.took || n.sessions[step.key].Seq != step.has {
			t.Errorf("step %d: %v, number %d; want %+v", i, took, n.sessions[step.key].Seq, step)
		}
	}
}

// TestWriterOf: a session wrote an object's version if its last write says so, and there was one.
func TestWriterOf(t *testing.T) {
	key := wire.Key{Hi: 1, Lo: 2}
	wrote := Session{Seq: 3, Version: 7, KeyLo: 2, Status: wire.StatusOk}
	for what, change := range map[string]func(s *Session){
		"another key": func(s *Session) { s.KeyLo = 9 }, "another version": func(s *Session) { s.Version = 6 },
		"a refused write": func(s *Session) { s.Status = wire.StatusBusy }, "no write": func(s *Session) { s.Seq = 0 },
	} {
		s := wrote
		if change(&s); s.WriterOf(key, 7) {
			t.Error(what)
		}
	}
	if !wrote.WriterOf(key, 7) {
		t.Error("the write itself")
	}
}

// TestNoDigest: a plane that cannot compute digests records none (W2).
func TestNoDigest(t *testing.T) {
	for _, without := range []bool{false, true} {
		n := New(Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8, NoDigest: without})
		if err := n.Configure(0, ShardConfig{Epoch: 1, State: Active, Members: membersOf(1)}); err != nil {
			t.Fatal(err)
		}
		m := wire.Message{Op: wire.OpPut, Epoch: 1, Session: 5, Seq: 1, Value: []byte("v")}
		n.Receive(1, membersOf(1)[0], m.Append(nil), nil)
		s, ok := n.sessions[SessionKey{Session: 5}]
		if !ok || (s.Result == 0) != without {
			t.Errorf("without digests %v: %+v %v", without, s, ok)
		}
	}
}
