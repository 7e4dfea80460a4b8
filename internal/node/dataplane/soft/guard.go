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
	if p.options.ClientRate == 0 { // the message is not read twice
		return message, true
	}
	if op, readable := opOf(message); readable && op < wire.OpForward && !p.within(from.Addr()) {
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
	case p.options.ClientRate > 0:
		p.refused[chain.Counter{Op: wire.OpBundle, Outcome: wire.OutcomeLimited}]++
	default:
		return true
	}
	return false
}

// within is T4: it takes one message out of a client's credit.
func (p *Plane) within(client netip.Addr) bool {
	return p.clients.Take(client, uint64(time.Second)/uint64(p.options.ClientRate), p.clock())
}

// opOf is the op of a message that a node can read at all; the node counts the others.
func opOf(message []byte) (wire.Op, bool) {
	var m wire.Message
	if !wire.Readable(message) || !wire.Peek(message, &m) {
		return 0, false
	}
	return m.Op, true
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
	p.node.SetTags(t)
	return nil
}

func (p *Plane) phase() wire.Tags { return wire.Tags(p.tags.Load()) }

// tag puts the trailer behind a message of the node's own to this address, where messages have one.
func (p *Plane) tag(message []byte, to netip.AddrPort) ([]byte, error) {
	return p.phase().Sending(p.keys.Load()).Append(message, wire.Ends{From: p.addr, To: to})
}
