package chain

import (
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// Heart identifies the heartbeats for a node (H1).
type Heart struct {
	Key         wire.Secret
	Node        uint32
	Generation  uint32 // of the set of controllers
	Incarnation uint64
}

// Granted is the lease that heartbeats granted a node (H2).
type Granted struct {
	Until uint64                   // end of the lease; 0: none was granted
	Ends  [wire.MaxGranters]uint64 // of the newest grant of each controller, by its place among all
}

// heart is a node's state of heartbeats.
type heart struct {
	Heart
	Granted
}

// SetHeart replaces the identification of heartbeats. Earlier grants count no more; a lease that a majority gave stays.
func (n *Node) SetHeart(h Heart) {
	n.heart = &heart{Heart: h, Granted: Granted{Until: n.Granted().Until}}
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
	case h.Node != n.heart.Node || h.Generation != n.heart.Generation || h.Incarnation != n.heart.Incarnation:
		return wire.OutcomeBadTag
	}
	n.heart.grant(now, h)
	return wire.OutcomeAlive
}

// grant is H2: L1 in the data plane.
func (t *heart) grant(now uint64, h *wire.Heartbeat) {
	end := h.Stamp + h.Lease
	if h.Lease == 0 || end < h.Stamp || h.Stamp > now || int(h.Granter) >= len(t.Ends) || h.Majority < 1 || int(h.Majority) > len(t.Ends) {
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
	if n.heart == nil || !s.config.Readable() {
		return s.leaseUntil
	}
	return max(s.leaseUntil, n.heart.Until)
}
