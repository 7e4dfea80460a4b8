package chain

import (
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// TestBoundedNeedsALease is R5 on a clock that has only just started, which no scenario can show.
func TestBoundedNeedsALease(t *testing.T) {
	self := netip.MustParseAddrPort("10.0.0.1:4411")
	n := New(Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
	if err := n.Configure(0, ShardConfig{Epoch: 1, State: Active, Members: []netip.AddrPort{self}}); err != nil {
		t.Fatal(err)
	}
	m := wire.Message{Op: wire.OpRead, Flags: wire.FlagBounded, Detail: 1000, Epoch: 1}
	for _, c := range []struct {
		lease uint64
		want  wire.Status
	}{{0, wire.StatusBusy}, {1, wire.StatusNotFound}} {
		if err := n.Grant(0, c.lease); err != nil {
			t.Fatal(err)
		}
		out := n.Receive(uint64(time.Millisecond), netip.MustParseAddrPort("10.0.1.1:5000"), m.Append(nil), nil)
		if len(out) != 1 || out[0].Message.Status() != c.want {
			t.Errorf("lease until %d: %v, want one reply %v", c.lease, out, c.want)
		}
	}
}

// TestNearby is R6: only clean, present objects, and only with permission.
func TestNearby(t *testing.T) {
	const now = uint64(time.Second)
	self, head := netip.MustParseAddrPort("10.0.0.2:4411"), netip.MustParseAddrPort("10.0.0.1:4411")
	n := New(Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
	config := ShardConfig{Epoch: 7, State: Active, Self: 1, Members: []netip.AddrPort{head, self, netip.MustParseAddrPort("10.0.0.3:4411")}}
	if err := n.Configure(0, config); err != nil {
		t.Fatal(err)
	}
	clean, dirty, deleted := wire.Key{Hi: 1}, wire.Key{Hi: 2}, wire.Key{Hi: 3}
	n.objects[clean] = &Object{Version: 4, Committed: 4, Value: []byte("four")}
	n.objects[dirty] = &Object{Version: 4, Committed: 3, Value: []byte("four")}
	n.objects[deleted] = &Object{Version: 4, Committed: 4, Tombstone: true}
	for _, c := range []struct {
		what  string
		lease uint64
		key   wire.Key
		ok    bool
	}{
		{"without a lease", 0, clean, false},
		{"after the lease", now, clean, false},
		{"a clean object", now + 1, clean, true},
		{"a dirty object", now + 1, dirty, false},
		{"a tombstone", now + 1, deleted, false},
		{"an unknown key", now + 1, wire.Key{Hi: 4}, false},
	} {
		if err := n.Grant(0, c.lease); err != nil {
			t.Fatal(err)
		}
		o, epoch, ok := n.Nearby(now, c.key)
		if ok != c.ok || ok && (epoch != 7 || o.Version != 4 || string(o.Value) != "four") {
			t.Errorf("%s: %+v in epoch %d, answered %v", c.what, o, epoch, ok)
		}
	}
	if reads := n.objects[clean].Reads; reads != 1 {
		t.Errorf("the object counts %d reads", reads)
	}
}
