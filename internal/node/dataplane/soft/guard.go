package soft

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// admit returns the message of a datagram that the node may be shown: its tag is right (T1), and its client is within
// its rate (T4). Refused datagrams are counted. The caller holds the lock.
func (p *Plane) admit(from netip.AddrPort, datagram []byte) (message []byte, ok bool) {
	if message, ok = p.phase().Open(p.keys.Load(), datagram, wire.Ends{From: from, To: p.addr}); !ok && wire.Readable(message) {
		p.refused[chain.Counter{Outcome: wire.OutcomeBadTag}]++
		return nil, false
	}
	if p.clients.table == nil { // no client is limited: the message is not read twice
		return message, true
	}
	if op, readable := opOf(message); readable && op < wire.OpForward && !p.clients.within(from.Addr(), p.clock()) {
		p.refused[chain.Counter{Op: op, Outcome: wire.OutcomeLimited}]++
		return nil, false
	}
	return message, true
}

// admitBundle is [Plane.admit] for bundles, which have no tags and no rates (B1). A node that sends tags takes none.
func (p *Plane) admitBundle() bool {
	switch {
	case p.phase().Sends():
		p.refused[chain.Counter{Outcome: wire.OutcomeBadTag}]++
	case p.clients.table != nil:
		p.refused[chain.Counter{Op: wire.OpBundle, Outcome: wire.OutcomeLimited}]++
	default:
		return true
	}
	return false
}

// opOf is the op of a message that a node can read at all; the node counts the others.
func opOf(message []byte) (wire.Op, bool) {
	var m wire.Message
	if !wire.Readable(message) || !wire.Peek(message, &m) {
		return 0, false
	}
	return m.Op, true
}

// mostClients bounds the table; a client that is dropped from it begins anew.
const mostClients = 1 << 16

// clients has the rate limit of every client (T4).
type clients struct {
	cost, most uint64 // of one message; of credit, in nanoseconds
	table      map[netip.Addr]client
}

type client struct{ last, credit uint64 }

// newClients takes messages a second; 0 is no limit.
func newClients(rate int) clients {
	if rate == 0 {
		return clients{}
	}
	cost := uint64(time.Second) / uint64(rate)
	return clients{cost: cost, most: max(cost, wire.ClientBurstNs), table: make(map[netip.Addr]client)}
}

// within takes one message out of a client's credit; false if there is none left. now is in nanoseconds.
func (c *clients) within(addr netip.Addr, now uint64) bool {
	one, known := c.table[addr]
	if !known {
		if len(c.table) >= mostClients {
			clear(c.table)
		}
		one = client{now, c.most}
	}
	if now > one.last {
		one.credit, one.last = min(c.most, one.credit+now-one.last), now
	}
	ok := one.credit >= c.cost
	if ok {
		one.credit -= c.cost
	}
	c.table[addr] = one
	return ok
}

// SetKeys replaces the node's keys.
func (p *Plane) SetKeys(k *wire.Keyring) error {
	p.keys.Store(k)
	return nil
}

// SetTags implements [dataplane.Plane].
func (p *Plane) SetTags(t wire.Tags) error {
	p.mu.Lock() // a message is handled and answered in one phase
	defer p.mu.Unlock()
	p.tags.Store(uint32(t))
	return nil
}

func (p *Plane) phase() wire.Tags { return wire.Tags(p.tags.Load()) }

// tag puts the trailer behind a message of the node's own to this address, where messages have one.
func (p *Plane) tag(message []byte, to netip.AddrPort) ([]byte, error) {
	return p.phase().Sending(p.keys.Load()).Append(message, wire.Ends{From: p.addr, To: to})
}
