package soft

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// pause keeps a socket that fails without being closed (no memory in the kernel) from turning into a busy loop.
const pause = 10 * time.Millisecond

// packet is an encoded message or bundle on its way out; bytes are a part of the batch's buffer.
type packet struct {
	to         netip.AddrPort
	start, end int
}

// batch holds the buffers of one reader, used again for every message.
type batch struct {
	sends   []chain.Send
	packets []packet
	buffer  []byte
}

// serve answers messages until the socket is closed.
func (p *Plane) serve() {
	// One byte more than the longest message, so that a longer one is still seen to be too long.
	datagram := make([]byte, wire.MaxDatagramBytes+1)
	var b batch
	for {
		n, from, err := p.socket.ReadFromUDPAddrPort(datagram)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(pause)
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		p.receive(from, datagram[:n], &b)
		p.transmit(&b)
	}
}

// receive runs one message through the node. The messages to send refer to the node's state, so they are encoded before
// the next message may come.
func (p *Plane) receive(from netip.AddrPort, datagram []byte, b *batch) {
	b.sends, b.packets, b.buffer = b.sends[:0], b.packets[:0], b.buffer[:0]
	p.mu.Lock()
	defer p.mu.Unlock()
	if wire.IsBundle(datagram) {
		p.receiveBundle(from, datagram, b)
		return
	}
	if wire.IsHeartbeat(datagram) {
		if b.buffer = p.node.ReceiveHeartbeat(p.clock(), datagram, b.buffer); len(b.buffer) > 0 {
			b.packets = append(b.packets, packet{from, 0, len(b.buffer)})
		}
		return
	}
	message, ok := p.admit(from, datagram)
	if !ok {
		return
	}
	now := p.clock()
	b.sends = p.node.Receive(now, from, message, b.sends)
	for _, s := range b.sends {
		start := len(b.buffer)
		b.buffer = s.Message.Append(b.buffer)
		if tagged, err := p.tag(b.buffer[start:], s.To); err == nil {
			b.buffer = append(b.buffer[:start], tagged...)
			b.packets = append(b.packets, packet{s.To, start, len(b.buffer)})
		}
	}
	p.follow(message)
	p.noteContended(now, b.sends)
}

// receiveBundle is [Plane.receive] for a bundle, which is answered in place. The caller holds the lock.
func (p *Plane) receiveBundle(from netip.AddrPort, bundle wire.Bundle, b *batch) {
	if !p.admitBundle() {
		return
	}
	to, sends := p.node.ReceiveBundle(p.clock(), from, bundle)
	if !sends {
		return // nothing changed either
	}
	b.buffer = append(b.buffer, bundle...)
	b.packets = append(b.packets, packet{to, 0, len(b.buffer)})
	for i := range bundle.Count() {
		if message, ok := bundle.Message(i); ok {
			p.follow(message)
		}
	}
}

// follow keeps the set of dirty objects, after a message that may have changed one.
func (p *Plane) follow(datagram []byte) {
	var m wire.Message
	if !wire.Peek(datagram, &m) || m.Op == wire.OpRead {
		return
	}
	p.mark(m.Key)
}

func (p *Plane) mark(key wire.Key) {
	object := p.node.Objects()[key]
	if object == nil || object.Clean() {
		delete(p.dirty, key)
		return
	}
	if _, known := p.dirty[key]; !known {
		p.dirty[key] = refusal{}
	}
}

func (p *Plane) transmit(b *batch) {
	for _, out := range b.packets {
		_, err := p.socket.WriteToUDPAddrPort(b.buffer[out.start:out.end], out.to)
		if err == nil || errors.Is(err, net.ErrClosed) {
			continue
		}
		p.mu.Lock()
		p.unroutable++
		p.mu.Unlock()
	}
}
