package xdp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// TestContended sets the clock and checks when the program reports a key for which it refuses CAS or ADD: not at the
// first refusal of a version, not sooner than ContendedAfter after that refusal or the last report, and not if
// versions change.
func TestContended(t *testing.T) {
	roottest.Need(t)
	m, ring := newContendedHead(t, newSecret())
	key := wire.Key{Hi: 1, Lo: 2}
	now, request, seq := testNow, uint64(0), uint64(0)
	step := func(message wire.Message, from netip.AddrPort) {
		t.Helper()
		request++
		message.Epoch, message.Key, message.Request = 1, key, request
		if err := m.SetClock(now); err != nil {
			t.Fatal(err)
		}
		in := frame.Append(nil, &frame.Packet{From: from, To: conformance.Me, Message: message.Append(nil)})
		if action, _, err := m.Run(in); err != nil || action == Passed {
			t.Fatal(action, err)
		}
	}
	write := func() {
		t.Helper()
		seq++
		step(wire.Message{Op: wire.OpPut, Session: 1, Seq: seq}, at(9))
	}
	told := func(op wire.Op, after time.Duration) bool {
		t.Helper()
		now += uint64(after)
		seq++
		step(wire.Message{Op: op, Session: 2, Seq: seq, Operand: 1}, at(9))
		if ring.AvailableBytes() == 0 {
			return false
		}
		record, err := ring.Read()
		if err != nil || keyOf(record.RawSample[:keyBytesInTables]) != key {
			t.Fatalf("told of %x, %v", record.RawSample, err)
		}
		return true
	}
	write()
	for i, one := range []struct {
		op    wire.Op
		after time.Duration
		want  bool
	}{
		{wire.OpCAS, 0, false}, {wire.OpCAS, dataplane.ContendedAfter / 2, false}, {wire.OpAdd, dataplane.ContendedAfter, true},
		{wire.OpCAS, dataplane.ContendedAfter / 2, false}, {wire.OpCAS, dataplane.ContendedAfter, true}, {wire.OpCAS, time.Hour, true},
	} {
		if got := told(one.op, one.after); got != one.want {
			t.Errorf("refusal %d, after %v more: told is %v", i, one.after, got)
		}
	}
	write()
	if told(wire.OpCAS, time.Hour) {
		t.Error("told at the first refusal of a newer version")
	}
	if !told(wire.OpCAS, 2*dataplane.ContendedAfter) {
		t.Error("not told of the newer version")
	}
}

// TestContendedTogether refuses the CAS of two keys of one place in turns: each is reported.
func TestContendedTogether(t *testing.T) {
	roottest.Need(t)
	m, ring := newContendedHead(t, secret{})
	now, seq := testNow, uint64(0)
	send := func(op wire.Op, key wire.Key) {
		t.Helper()
		seq++
		message := wire.Message{Op: op, Session: 1, Seq: seq, Epoch: 1, Key: key, Request: seq}
		if err := m.SetClock(now); err != nil {
			t.Fatal(err)
		}
		in := frame.Append(nil, &frame.Packet{From: at(9), To: conformance.Me, Message: message.Append(nil)})
		if action, _, err := m.Run(in); err != nil || action == Passed {
			t.Fatal(action, err)
		}
	}
	keys := []wire.Key{{Hi: 1, Lo: 2}, {Hi: 3, Lo: 4}}
	told := make(map[wire.Key]int)
	for _, key := range keys {
		send(wire.OpPut, key)
	}
	for range 4 {
		for _, key := range keys {
			send(wire.OpCAS, key)
			for ring.AvailableBytes() > 0 {
				record, err := ring.Read()
				if err != nil {
					t.Fatal(err)
				}
				told[keyOf(record.RawSample[:keyBytesInTables])]++
			}
		}
		now += uint64(dataplane.ContendedAfter)
	}
	for _, key := range keys {
		if told[key] == 0 {
			t.Errorf("key %v was not reported, others: %v", key, told)
		}
	}
}

// newContendedHead returns the head of a chain of two, and the ring of its contended keys.
func newContendedHead(t *testing.T, places secret) (*Offline, *ringbuf.Reader) {
	t.Helper()
	m, err := NewOffline(conformance.Me, conformance.Net)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	m.secret = places
	if err := m.Reset(chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4}); err != nil {
		t.Fatal(err)
	}
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me, at(3)}}
	serveFirst(t, m, config)
	ring, err := ringbuf.NewReader(m.objects.Contended)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ring.Close() })
	return m, ring
}
