package agent

import (
	"crypto/rand"

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
