package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Heartbeats go from each controller to the data planes of nodes, which answer while their agents pause or are away
// (H1 to H4).

// setID names the set of controllers, which stays as it is.
const setID = 1

// heart is a controller's state of a node's data plane.
type heart struct {
	n           *node
	key         wire.Secret
	incarnation uint64
	request     uint64
	answered    uint64
	grant       reconfig.Grant
}

// tellHeart gives the plane, and a controller that registered the node, the identification of its heartbeats.
func (a *agent) tellHeart(c *controller) {
	n := a.n
	h := chain.Heart{Key: n.heartKey, Node: uint32(a.id), SetID: setID, Incarnation: n.incarnation}
	if n.heart != h {
		n.w.watch.fail(n.plane.SetHeart(h))
		n.heart = h
	}
	id, key, incarnation := a.id, n.heartKey, n.incarnation
	n.w.net.carry(control, n.endpoint(), c.endpoint(), func(bool) {
		c.soon(func() {
			if before := c.hearts[id]; before == nil || before.incarnation != incarnation || before.key != key {
				c.hearts[id] = &heart{n: n, key: key, incarnation: incarnation}
			}
		})
	})
}

// askAll sends a heartbeat to every node, again and again.
func (c *controller) askAll(process uint64) {
	if process != c.process || !c.alive {
		return
	}
	c.soon(func() {
		for _, id := range slices.Sorted(maps.Keys(c.hearts)) {
			c.ask(id, c.hearts[id])
		}
		if l := c.leader; l != nil {
			c.leading(l, l.Asked)
		}
	})
	c.w.after(c.clock.takes(c.w.Beat), func() { c.askAll(process) })
}

func (c *controller) ask(id reconfig.NodeID, h *heart) {
	if !c.grantor.Knows(id, h.incarnation) {
		delete(c.hearts, id)
		return
	}
	c.w.send(c.next(id, h))
}

// next is the next heartbeat of a node.
func (c *controller) next(id reconfig.NodeID, h *heart) packet {
	h.request = max(h.request+1, wire.HeartbeatTime(uint8(c.process), uint64(c.time())))
	b := wire.Heartbeat{
		Granter: uint8(c.number), Majority: uint8(c.state.Controllers.Majority()), Node: uint32(id),
		SetID:       setID,
		Incarnation: h.incarnation, Request: h.request,
	}
	if c.grantor.Grants(id, h.incarnation) {
		b.Stamp, b.Lease = h.grant.Stamp, uint64(h.grant.Lease)
	}
	return packet{c.endpoint().addr(), h.n.endpoint().addr(), b.Append(nil, &h.key)}
}

// receive takes a node's answer to a heartbeat.
func (c *controller) receive(datagram []byte) {
	c.soon(func() {
		if !wire.IsHeartbeat(datagram) || len(datagram) != wire.HeartbeatBytes {
			return
		}
		id := reconfig.NodeID(wire.HeartbeatNode(datagram))
		h := c.hearts[id]
		var b wire.Heartbeat
		if h == nil || wire.ReadHeartbeat(datagram, &h.key, &b) != wire.Accepted || !b.Answer ||
			b.Incarnation != h.incarnation ||
			b.Request <= h.answered || b.Request > h.request {
			return
		}
		h.answered = b.Request
		h.grant, _ = c.grantor.Heartbeat(c.time(), reconfig.Heartbeat{Node: id, Incarnation: h.incarnation, Stamp: b.Stamp})
		if l := c.leader; l != nil {
			c.leading(l, func(now time.Duration) {
				l.Alive(now, id, h.incarnation)
				c.lastSeen[id] = c.w.now
			})
		}
	})
}

// heartbeat takes over the result of a heartbeat in the plane: the lease may be longer.
func (n *node) heartbeat() {
	granted, err := n.plane.Granted()
	n.w.watch.fail(err)
	if granted.Since != n.since {
		n.since, n.renewed = granted.Since, 0
	}
	if granted.Until > n.renewed {
		n.renewed = granted.Until
		for shard := range uint16(n.w.Shards) {
			n.w.watch.checkReader(n, shard)
		}
	}
}
