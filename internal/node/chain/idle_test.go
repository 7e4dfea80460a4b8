package chain

import (
	"errors"
	"maps"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// TestIdleSessions: an entry is due when its last write has been there for long enough.
func TestIdleSessions(t *testing.T) {
	a, b, c := SessionKey{Session: 1}, SessionKey{Session: 2}, SessionKey{Session: 2, Shard: 1}
	r := NewIdleSessions()
	for i, step := range []struct {
		now   uint64
		table map[SessionKey]Session
		due   map[SessionKey]uint64
	}{
		{100, map[SessionKey]Session{a: {Seq: 1}, b: {Seq: 1}, c: {Seq: 9}}, map[SessionKey]uint64{}},
		{149, map[SessionKey]Session{a: {Seq: 1}, b: {Seq: 2}, c: {Seq: 9}}, map[SessionKey]uint64{}},
		{150, map[SessionKey]Session{a: {Seq: 1}, b: {Seq: 2}, c: {Seq: 9}}, map[SessionKey]uint64{a: 1, c: 9}},
		{199, map[SessionKey]Session{b: {Seq: 2}, c: {Seq: 9}}, map[SessionKey]uint64{b: 2, c: 9}},
		{210, map[SessionKey]Session{a: {Seq: 1}}, map[SessionKey]uint64{}}, // it was away
		{220, map[SessionKey]Session{b: {}}, map[SessionKey]uint64{}},       // made, without a write yet
		{270, map[SessionKey]Session{b: {}}, map[SessionKey]uint64{b: 0}},
	} {
		due, err := r.Look(step.now, 50, func(visit func(SessionKey, Session) bool) error {
			for k, s := range step.table {
				visit(k, s)
			}
			return nil
		})
		if err != nil || !maps.Equal(due, step.due) || r.Marks() != len(step.table) {
			t.Errorf("look %d: due %v, %d marks, %v; want %v", i, due, r.Marks(), err, step.due)
		}
	}
}

func TestPressing(t *testing.T) {
	for entries, want := range map[int]bool{0: false, 2: false, 3: true, 4: true} {
		if Pressing(entries, 4) != want {
			t.Errorf("%d of 4 entries: %v", entries, !want)
		}
	}
}

func TestIdleSessionsOfAFailedWalk(t *testing.T) {
	failed := errors.New("a walk")
	due, err := NewIdleSessions().Look(1, 0, func(func(SessionKey, Session) bool) error { return failed })
	if due != nil || !errors.Is(err, failed) {
		t.Errorf("%v, %v", due, err)
	}
}

// TestCreditsAtAnEarlierTime: CPUs' clocks differ, and an address loses no credit by that (T7).
func TestCreditsAtAnEarlierTime(t *testing.T) {
	var c Credits
	a := membersOf(1)[0].Addr()
	const now = 10 * wire.ClientBurstNs
	if !c.Take(a, 1, now) || !c.Take(a, 1, now-2*wire.ClientBurstNs) || !c.Take(a, 1, now) {
		t.Error("an earlier time took the credit")
	}
}
