package agent

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// newHeartKey draws the key of the node's heartbeats (H1).
func newHeartKey() (s wire.Secret) {
	_, _ = rand.Read(s[:]) // it never fails
	return s
}

// tellHeart gives the key of heartbeats to the plane, and to the controller that welcomed the node.
func (m *membership) tellHeart(l *link, w *controllerv1.Welcome) {
	setID, known := m.set.setID()
	if w.GetNode() == 0 || !known {
		return
	}
	heart := chain.Heart{Key: m.heartKey, Node: w.GetNode(), Incarnation: m.join.Identity.Incarnation, SetID: setID}
	m.hearting.Lock()
	defer m.hearting.Unlock()
	if m.heart != heart {
		if err := m.plane.SetHeart(heart); err != nil {
			m.log.Error("the data plane cannot answer heartbeats; this process does", "error", err)
			return
		}
		m.heart = heart
	}
	for _, each := range m.allLinks() { // the set may be new
		each.mu.Lock()
		each.granter = m.set.granter(each.name)
		each.mu.Unlock()
	}
	l.send(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Heart{Heart: &controllerv1.Heart{Key: heart.Key[:]}}})
}

// renewFromHeartbeats extends the leases of shards to the end that heartbeats granted, and returns their grants. The caller
// holds leasing.
func (m *membership) renewFromHeartbeats() chain.Granted {
	granted, err := m.plane.Granted()
	if err == nil && m.lease.Void(granted.Since) {
		m.log.Warn("this machine's clock stood still: the lease is void until the controllers grant another one")
		err = m.plane.Renew(0)
	}
	if err == nil && m.lease.Extend(granted.Until) {
		err = m.plane.Renew(granted.Until)
	}
	if err != nil {
		m.log.Error("cannot renew the lease", "error", err)
	}
	return granted
}

const (
	// reachWithin is how long another node's data plane may take to answer.
	reachWithin = 200 * time.Millisecond
	// reachAgain is when a probe that was not answered is sent again.
	reachAgain = 50 * time.Millisecond
)

// probe looks whether this node reaches the data plane of another one, and tells the controllers if it does.
func (m *membership) probe(p *controllerv1.Probe) {
	addr, err := netip.ParseAddrPort(p.GetAddr())
	if err != nil {
		return
	}
	m.start(func(ctx context.Context) {
		if m.reaches(ctx, addr) {
			m.tell(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Reached{Reached: &controllerv1.Reached{Node: p.GetNode()}}})
		}
	})
}

// reaches asks a data plane for an object that does not exist: any answer will do.
func (m *membership) reaches(ctx context.Context, addr netip.AddrPort) bool {
	socket, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return false
	}
	defer socket.Close()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	var random [24]byte
	_, _ = rand.Read(random[:])
	key := wire.Key{Hi: binary.BigEndian.Uint64(random[:]), Lo: binary.BigEndian.Uint64(random[8:])}
	question := wire.Message{
		Op: wire.OpRead, Key: key, Shard: key.Shard(m.plane.Info().Options.Shards), Request: binary.BigEndian.Uint64(random[16:]),
	}
	out, err := m.tags.phase().Asking(m.keys.Load()).Append(question.Append(nil), wire.Ends{To: addr})
	if err != nil {
		return false
	}
	in := make([]byte, wire.MaxDatagramBytes)
	for end := time.Now().Add(reachWithin); time.Now().Before(end) && ctx.Err() == nil; {
		if _, err := socket.Write(out); err != nil {
			return false
		}
		_ = socket.SetReadDeadline(time.Now().Add(reachAgain))
		n, err := socket.Read(in)
		if err != nil {
			continue
		}
		var answer wire.Message
		message, ok := m.tags.phase().OpenAnswer(m.keys.Load(), in[:n], wire.Ends{From: addr})
		if ok && wire.Peek(message, &answer) && answer.Op == wire.OpReply && answer.Request == question.Request {
			return true
		}
	}
	return false
}
