package p4

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// queue is a switch with frames for the CPU port.
type queue struct {
	Switch
	frames chan Left
}

func (queue) Do(*Request) error     { return nil }
func (q queue) ForCPU() <-chan Left { return q.frames }

// TestLateHeartbeats: a heartbeat that waited for the node does not look as if the clock had stood still until then (H4).
func TestLateHeartbeats(t *testing.T) {
	q := queue{frames: make(chan Left, 2)}
	n, err := NewNode(q, netip.MustParseAddrPort("10.77.0.2:4411"), small)
	if err != nil {
		t.Fatal(err)
	}
	heart := chain.Heart{Key: wire.Secret{7}, Node: 3, SetID: 1, Incarnation: 99}
	if err := n.SetHeart(heart); err != nil {
		t.Fatal(err)
	}
	now := dataplane.BootTime()
	for _, arrived := range []uint64{now - uint64(50*time.Millisecond), now} {
		h := wire.Heartbeat{Majority: 1, Node: heart.Node, SetID: heart.SetID, Incarnation: heart.Incarnation,
			Request: wire.HeartbeatTime(1, arrived), Stamp: arrived, Lease: uint64(time.Hour)}
		f := make([]byte, PlatformBytes)
		binary.BigEndian.PutUint64(f, arrived)
		f[offReason] = cpuHeartbeat
		q.frames <- Left{PortCPU, frame.Append(f, &frame.Packet{
			From: netip.MustParseAddrPort("10.77.0.9:4413"), To: n.self, Message: h.Append(nil, &heart.Key),
		})}
	}
	close(q.frames)
	p := Plane{Node: n, sw: q, raw: -1} // the answers go nowhere
	p.attend()
	if g, err := n.Granted(); err != nil || g.Until != now+uint64(time.Hour) || g.Since != 0 {
		t.Errorf("granted: %+v, %v", g, err)
	}
}
