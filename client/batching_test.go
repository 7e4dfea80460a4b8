package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// One bundle is tried on a way before more follow, and none goes where bundles are lost, until one gets an answer.
func TestBatching(t *testing.T) {
	now := time.Now()
	var w batching
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
	expect("after the first was lost", now.Add(minBundleBackoff-1), false)
	expect("after a pause", now.Add(minBundleBackoff), true)
	w.opened(now.Add(minBundleBackoff))
	expect("after another loss", now.Add(3*minBundleBackoff-1), false)
	w.answered()
	expect("after an answer", now, true)
	w.opened(now)
	expect("while a later one is under way", now, true)
	for range wire.MaxSlots { // of one bundle
		w.missed(now, now)
	}
	for i := range time.Duration(lostInARow) { // under way together
		w.missed(now.Add(-i), now)
	}
	w.missed(now.Add(1), now)
	expect("after two losses", now, true)
	w.answered()
	for i := range time.Duration(lostInARow) {
		w.missed(now.Add(i), now)
	}
	expect("after losses in a row", now.Add(minBundleBackoff-1), false)
	for range 20 {
		w.opened(now)
	}
	expect("in the longest pause", now.Add(maxBundleBackoff-1), false)
	expect("after the longest pause", now.Add(maxBundleBackoff), true)
}

// Answers to one bundle are one sample: as many equal ones would hide that the answer to the next bundle may take
// longer.
func TestBundleIsOneSample(t *testing.T) {
	c := twoChains(t)
	keys := keysOf(t, c, 0, 14)
	at, node := c.start(t.Context(), false), c.view.Load().nodes["n1"]
	ask := func(took time.Duration) (mean time.Duration) {
		calls := make([]call, len(keys))
		for i, key := range keys {
			op, m := GetOp(key), wire.Message{}
			begin(t, &calls[i], &at, &op)
			if _, ok := calls[i].aim(); !ok {
				t.Fatal(calls[i].outcome.Err)
			}
			calls[i].fire(at.now, uint64(i), 0, &node.ways[0].reads, &m)
		}
		for i := range calls {
			m := wire.Message{Op: wire.OpReply, Request: uint64(i), Key: calls[i].key, Detail: uint16(wire.StatusOk)}
			if v := calls[i].judge(at.now.Add(took), node.addr, &m); v != done {
				t.Fatalf("verdict %v", v)
			}
		}
		at.now = at.now.Add(time.Second)
		at.until = at.until.Add(time.Second)
		return time.Duration(node.reads.mean.Load())
	}
	if mean := ask(time.Millisecond); mean != time.Millisecond {
		t.Errorf("the first answer took 1ms, and the mean is %v", mean)
	}
	if mean := ask(9 * time.Millisecond); mean != 2*time.Millisecond {
		t.Errorf("the second took 9ms, an eighth of the mean, which is %v", mean)
	}
}

// The slot size of reads covers most replies, but not rare long ones.
func TestReadRoom(t *testing.T) {
	var r readSlotSize
	if got := r.bytes(); got != wire.ChainBytes {
		t.Fatalf("before any reply: %d", got)
	}
	reply := func(count, valueBytes int, hops uint8) {
		for range count {
			r.note(&wire.Message{Hops: hops, Value: make([]byte, valueBytes)})
		}
	}
	expect := func(when string, valueBytes, reads int) {
		t.Helper()
		if got := bundled(r.bytes()); got != reads || r.bytes() < wire.VersionBytes+valueBytes {
			t.Errorf("%s: %d bytes, %d in a bundle, not %d", when, r.bytes(), got, reads)
		}
	}
	reply(minReadPeriod, 500, 1)
	expect("after long values", 500, 2)
	for range 20 {
		reply(maxReadPeriod-1, 16, 1)
		reply(1, wire.MaxValueBytes, 1)
	}
	expect("short values and a rare long one", 16, 21)
	for range 20 {
		reply(maxReadPeriod/2, 16, 1)
		reply(maxReadPeriod/2, 200, 1)
	}
	expect("half of the values have 200 bytes", 200, 5)
	for range 20 {
		reply(maxReadPeriod/2, 16, 1)
		reply(maxReadPeriod/2, 16, 2)
	}
	expect("half of the reads are forwarded", wire.ChainBytes-wire.VersionBytes, 14)
	reply(20*maxReadPeriod, 0, 1)
	expect("no values", 0, bundled(wire.VersionBytes))
	reply(20*maxReadPeriod, wire.MaxValueBytes, 1)
	expect("the longest values", wire.MaxValueBytes, 1)
}

// Bundles that do not even leave, as where a packet may not be so long, close their way like those that are lost.
func TestBundlesThatDoNotLeave(t *testing.T) {
	way := &batching{proven: true}
	p := &pipeline{slots: make([]slot, 1)}
	d := &datagram{items: make([]item, 2), way: way}
	for range lostInARow {
		if !way.allowed(time.Now()) {
			t.Fatal("too few did not leave for that")
		}
		p.unsent(d, errors.New("message too long"))
	}
	if way.allowed(time.Now()) {
		t.Error("bundles are still made")
	}
}

// The estimates of a way last until its members change.
func TestWaysLastFromMapToMap(t *testing.T) {
	c := twoChains(t)
	before := c.view.Load()
	for _, r := range before.routes {
		r.writes[0].answered()
	}
	next := *before.source
	next.Version++
	next.Chains = slices.Clone(next.Chains)
	next.Chains[1].Members = slices.Clone(next.Chains[1].Members)
	slices.Reverse(next.Chains[1].Members)
	next.Chains[1].Epoch++
	after, err := newView(&next, before)
	if err != nil {
		t.Fatal(err)
	}
	if !after.routes[0].writes[0].proven {
		t.Error("a chain that did not change: bundles have to prove themselves again")
	}
	if after.routes[1].writes[0].proven {
		t.Error("a chain with other members: bundles are taken for proven")
	}
}
