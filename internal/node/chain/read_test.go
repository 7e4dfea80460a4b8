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
