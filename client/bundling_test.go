package client

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// One bundle is tried on a way before more follow, and none goes where bundles are lost, until one gets an answer.
func TestBundling(t *testing.T) {
	now := time.Now()
	var w bundling
	expect := func(when string, at time.Time, want bool) {
		t.Helper()
		if w.allowed(at) != want {
			t.Fatalf("%s: allowed: %v", when, !want)
		}
	}
	expect("a new way", now, true)
	w.opened(now)
	expect("while the first is under way", now, false)
	w.missed(now, now.Add(time.Millisecond))
	expect("after the first was lost", now.Add(minBundleRest-1), false)
	expect("after a rest", now.Add(minBundleRest), true)
	w.opened(now.Add(minBundleRest))
	expect("after another loss", now.Add(3*minBundleRest-1), false)
	w.answered()
	expect("after an answer", now, true)
	w.opened(now)
	expect("while a later one is under way", now, true)
	for range wire.MaxSlots { // of one bundle
		w.missed(now, now)
	}
	w.missed(now.Add(1), now)
	expect("after two losses", now, true)
	w.answered()
	for i := range time.Duration(lostInARow) {
		w.missed(now.Add(i), now)
	}
	expect("after losses in a row", now.Add(minBundleRest-1), false)
	for range 20 {
		w.opened(now)
	}
	expect("in the longest rest", now.Add(maxBundleRest-1), false)
	expect("after the longest rest", now.Add(maxBundleRest), true)
}

// The room of replies is what most of them need, not what a rare one does.
func TestReplyRoom(t *testing.T) {
	var r replyRoom
	if got := r.bytes(); got != wire.ChainBytes {
		t.Fatalf("before any reply: %d", got)
	}
	reply := func(count, valueBytes int) {
		for range count {
			r.note(wire.VersionBytes + valueBytes)
		}
	}
	fits := func(valueBytes int) bool { return r.bytes() >= wire.VersionBytes+valueBytes }
	reply(minReplyPeriod, 500)
	if !fits(500) {
		t.Errorf("after long values: %d", r.bytes())
	}
	for range 20 {
		reply(maxReplyPeriod-1, 16)
		reply(1, wire.MaxValueBytes)
	}
	if got := wire.SlotsOf(wire.SlotFor(r.bytes())); got != bundled(0) || !fits(16) {
		t.Errorf("short values and a rare long one: %d bytes, %d in a bundle", r.bytes(), got)
	}
	for range 20 {
		reply(maxReplyPeriod/2, 16)
		reply(maxReplyPeriod/2, 200)
	}
	if !fits(200) || fits(wire.MaxValueBytes) {
		t.Errorf("half of the values have 200 bytes: %d", r.bytes())
	}
	reply(20*maxReplyPeriod, wire.MaxValueBytes)
	if !fits(wire.MaxValueBytes) || wire.SlotsOf(wire.SlotFor(r.bytes())) != 1 {
		t.Errorf("the longest values: %d", r.bytes())
	}
}
