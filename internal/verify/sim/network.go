package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// endpoint is a machine on the network; its address ends in the number.
type endpoint int

// Numbers of endpoints. Nodes come first.
const (
	firstNode       endpoint = 1
	firstController endpoint = 32
	firstClient     endpoint = 64
	endpoints                = 96
)

const clientPort = 50000

func (e endpoint) addr() netip.AddrPort {
	port := uint16(wire.Port)
	if e >= firstClient {
		port = clientPort
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, byte(e)}), port)
}

func endpointOf(a netip.AddrPort) endpoint { b := a.Addr().As4(); return endpoint(b[3]) }

// class is the purpose of a message. Control links can be cut while data passes.
type class uint8

const (
	data class = iota
	control
	classes
)

// network loses, repeats, delays, damages and, as every message has a delay of its own, reorders.
type network struct {
	w   *world
	rng *rand.Rand
	cut [classes][endpoints][endpoints]uint64 // until when nothing passes from one to another
}

// block lets nothing pass from one endpoint to another for some time.
func (n *network) block(c class, from, to endpoint, d uint64) {
	n.cut[c][from][to] = max(n.cut[c][from][to], n.w.now+d)
}

// heal ends all cuts.
func (n *network) heal() { n.cut = [classes][endpoints][endpoints]uint64{} }

// open reports whether a message can pass now.
func (n *network) open(c class, from, to endpoint) bool {
	return from == to || n.w.now >= n.cut[c][from][to]
}

// carry delivers a message once, several times or never. deliver gets whether the message was damaged on the way. Only data
// is damaged, because their transport protects control streams.
func (n *network) carry(c class, from, to endpoint, deliver func(damaged bool)) {
	w := n.w
	if !n.open(c, from, to) {
		return
	}
	if w.happens(n.rng, Loss, w.Loss) {
		return
	}
	copies := 1
	if w.happens(n.rng, Duplicate, w.Duplicate) {
		copies = 2
	}
	for range copies {
		damaged := c == data && w.happens(n.rng, Corrupt, w.Corrupt)
		w.after(n.delay(), func() { deliver(damaged) })
	}
}

func (n *network) delay() uint64 {
	w := n.w
	d := uint64(w.Latency) + uint64(n.rng.ExpFloat64()*float64(w.Jitter))
	if w.happens(n.rng, Late, w.Late) {
		d += n.rng.Uint64N(uint64(maxDelay))
	}
	return d
}

// maxDelay is the longest delay of a message. Clients give up later, and sessions are forgotten much later (W12).
const maxDelay = 300 * time.Millisecond

// packet is a datagram of the data plane.
type packet struct {
	from, to netip.AddrPort
	bytes    []byte
}

func (w *world) send(p packet) {
	to := endpointOf(p.to)
	w.net.carry(data, endpointOf(p.from), to, func(damaged bool) {
		if damaged {
			p.bytes = w.net.damage(p.bytes)
		}
		switch {
		case to >= firstClient:
			w.hand(to, p.bytes)
		case to >= firstController:
			w.controllers[to-firstController].receive(p.bytes)
		default:
			w.nodes[to-firstNode].receive(p, damaged)
		}
	})
}

// damage changes one 16-bit word, which the checksum of every message shows. (Damage to several words can make up for
// itself, once in 65,536 times.)
func (n *network) damage(b []byte) []byte {
	b = append([]byte(nil), b...)
	at := n.rng.IntN(len(b)/2) * 2
	before := [2]byte{b[at], b[at+1]}
	for {
		b[at] ^= byte(n.rng.Uint32())
		b[at+1] ^= byte(n.rng.Uint32())
		after := [2]byte{b[at], b[at+1]}
		if after != before && !isZero(before, after) {
			return b
		}
	}
}

// isZero reports whether both words are zero in ones' complement, which has two.
func isZero(a, b [2]byte) bool {
	zero := func(w [2]byte) bool { return w == [2]byte{} || w == [2]byte{0xff, 0xff} }
	return zero(a) && zero(b)
}
