package chain

import (
	"testing"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// TestLeasesAfterAStop: a clock that stood still voids the leases from before (H4), and a later one counts.
func TestLeasesAfterAStop(t *testing.T) {
	const ms = uint64(time.Millisecond)
	members := membersOf(1)
	n := New(Options{Shards: 1, CellBytes: 64, MaxObjects: 8, MaxSessions: 8})
	if err := n.Configure(0, ShardConfig{Epoch: 1, State: Active, Members: members}); err != nil {
		t.Fatal(err)
	}
	heart := Heart{Node: 1, Incarnation: 2}
	n.SetHeart(heart)
	beat := func(now, controller, lease uint64) {
		t.Helper()
		h := wire.Heartbeat{Majority: 1, Node: 1, Incarnation: 2, Stamp: now, Lease: lease, Request: controller}
		if len(n.ReceiveHeartbeat(now, h.Append(nil, &heart.Key), nil)) == 0 {
			t.Fatalf("no answer at %d ms", now/ms)
		}
	}
	readable := func(now uint64) bool {
		m := wire.Message{Op: wire.OpRead, Epoch: 1}
		out := n.Receive(now, members[0], m.Append(nil), nil)
		return len(out) == 1 && out[0].Message.Status() == wire.StatusNotFound
	}
	n.Renew(100 * ms)
	beat(10*ms, 500*ms, 0)
	if !readable(20 * ms) {
		t.Error("not readable under the lease of the agent")
	}
	beat(20*ms, 600*ms, 0) // the node's clock stood still for 90 ms
	if readable(21 * ms) {
		t.Error("readable under a lease from before the stop")
	}
	n.Renew(200 * ms)
	if !readable(150 * ms) {
		t.Error("not readable under a lease from after the stop")
	}
	if readable(200 * ms) {
		t.Error("readable at the end of the lease")
	}
}
