package chain

import (
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// Heart identifies the heartbeats for a node (H1).
type Heart struct {
	Key         wire.Secret
	Node        uint32
	SetID       uint32 // of the set of controllers
	Incarnation uint64
}

// Granted is the lease that heartbeats granted a node (H2).
type Granted struct {
	Until uint64                   // end of the lease; 0: none was granted
	Ends  [wire.MaxGranters]uint64 // of the newest grant of each controller, by its place among all
	// Since is when a stop of the node's clock was found last (H4): grants for an earlier stamp are void, and so are
	// leases that end no later than Void.
	Since, Void uint64
}

// heart is a node's state of heartbeats.
type heart struct {
	Heart
	Granted
	clocks  [wire.MaxGranters]clock
	without Rule
}

// How far a controller's clock may get ahead of a node's from one heartbeat to the next: ClockJump ns, and one part in
// ClockRates of the time between them, since clocks may run at different rates (L3, H4).
const (
	ClockJump  = uint64(2_000_000)
	ClockRates = 16
)

// clock compares a controller's clock with the node's (H4). Differences are in units of 1/256 ns: so the 56 bits of a
// controller's clock wrap as 64 do.
type clock struct {
	process uint64 // of the controller; another one may have another clock
	ahead   uint64 // the controller's clock less the node's, as far as it was ahead
	at      uint64 // of the last comparison, by the node's clock; 0: there was none
}

// SetHeart replaces the identification of heartbeats. Earlier grants count no more; a lease that a majority gave stays.
func (n *Node) SetHeart(h Heart) {
	before := n.Granted()
	before.Ends = [wire.MaxGranters]uint64{}
	n.heart = &heart{Heart: h, Granted: before, without: n.options.Without}
}

// Granted returns the lease that heartbeats granted.
func (n *Node) Granted() Granted {
	if n.heart == nil {
		return Granted{}
	}
	return n.heart.Granted
}

// ReceiveHeartbeat takes a datagram for which [wire.IsHeartbeat] is true, and appends the answer to out; nothing if
// there is none.
func (n *Node) ReceiveHeartbeat(now uint64, datagram, out []byte) []byte {
	var h wire.Heartbeat
	outcome := n.heartbeat(now, datagram, &h)
	n.counters[Counter{wire.OpHeartbeat, outcome}]++
	if outcome != wire.OutcomeAlive {
		return out
	}
	h.Answer, h.Stamp, h.Lease = true, now, n.heart.Until
	return h.Append(out, &n.heart.Key)
}

func (n *Node) heartbeat(now uint64, datagram []byte, h *wire.Heartbeat) wire.Outcome {
	var key *wire.Secret
	if n.heart != nil {
		key = &n.heart.Key
	}
	outcome := wire.ReadHeartbeat(datagram, key, h)
	switch {
	case outcome != wire.Accepted:
		return outcome
	case h.Answer:
		return wire.OutcomeMalformed
	case h.Node != n.heart.Node || h.SetID != n.heart.SetID || h.Incarnation != n.heart.Incarnation:
		return wire.OutcomeBadTag
	}
	n.compare(now, h)
	n.heart.grant(now, h)
	return wire.OutcomeAlive
}

// compare is H4. A controller's clock that jumps ahead shows that the node's stood still, and its leases with it.
func (n *Node) compare(now uint64, h *wire.Heartbeat) {
	t := n.heart
	if int(h.Granter) >= len(t.clocks) {
		return
	}
	c := &t.clocks[h.Granter]
	process, ahead := h.Request>>56, h.Request<<8-now<<8
	if c.at != 0 && c.process == process && t.without&H4 == 0 {
		elapsed := uint64(0)
		if now > c.at {
			elapsed = now - c.at
		}
		lowered := c.ahead - elapsed>>2 // by 1/1024: a controller's clock may be the slower one
		switch jump := ahead - lowered; {
		case int64(jump) < 0:
			ahead = lowered
		case jump>>8 > ClockJump+elapsed/ClockRates:
			t.Granted = Granted{Since: now, Void: max(t.Void, t.Until, n.latest)}
		}
	}
	*c = clock{process: process, ahead: ahead, at: now}
}

// grant is H2: L1 in the data plane.
func (t *heart) grant(now uint64, h *wire.Heartbeat) {
	end := h.Stamp + h.Lease
	if h.Lease == 0 || end < h.Stamp || h.Stamp > now || h.Stamp < t.Since ||
		int(h.Granter) >= len(t.Ends) || h.Majority < 1 || int(h.Majority) > len(t.Ends) {
		return
	}
	t.Ends[h.Granter] = max(t.Ends[h.Granter], end)
	ends := t.Ends
	slices.Sort(ends[:])
	t.Until = max(t.Until, ends[len(ends)-int(h.Majority)])
}

// leaseEnd is when a shard's lease ends: as it was set for the shard, or as heartbeats granted it to all that are
// readable.
func (n *Node) leaseEnd(s *shard) uint64 {
	if n.heart == nil || !s.config.Readable() || s.leaseUntil == Forever {
		return s.leaseUntil
	}
	own := s.leaseUntil
	if own <= n.heart.Void {
		own = 0
	}
	return max(own, n.heart.Until)
}
