package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
)

// firstClientPort is the port of the first operation; every operation has one of its own, so that
// answers are matched where messages have no request id.
const firstClientPort = 20000

func nodeAddr(node int) netip.Addr     { return netip.AddrFrom4([4]byte{10, 77, 0, byte(1 + node)}) }
func clientAddr(client int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 1, byte(1 + client)}) }

func nodeAddrPort(node int, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(nodeAddr(node), port)
}

func endpointOf(a netip.Addr) Endpoint {
	b := a.As4()
	if b[2] == 1 {
		return firstClient + Endpoint(b[3]) - 1
	}
	return Endpoint(b[3]) - 1
}

// stream identifies the packets that a link carries because of one operation.
type stream struct {
	link Link
	op   int
}

// place is the number of a packet in its stream, from 1. A fault refers to it, so it keeps its
// place when other operations are removed, and hits the packet in the same place of another
// protocol.
type place struct {
	stream
	nth int
}

// network carries packets and decides their fate.
type network struct {
	w      *world
	sent   map[stream]int
	faults map[place][]Fault // those that are given
	acted  []Fault           // those that happened
	flying int               // packets under way
}

func newNetwork(w *world) network {
	n := network{w: w, sent: make(map[stream]int), faults: make(map[place][]Fault)}
	for _, f := range w.Faults {
		at := place{stream{f.Link, f.Op}, f.Nth}
		n.faults[at] = append(n.faults[at], f)
	}
	return n
}

// fate lists the faults of a packet.
func (n *network) fate(at place) []Fault {
	w := n.w
	if w.calm {
		return nil
	}
	if !w.Drawn {
		return n.faults[at]
	}
	for _, b := range w.Weather.Bursts {
		if b.Link == at.link && w.now >= b.From && w.now < b.Until {
			return []Fault{at.fault(Lose, 0)}
		}
	}
	rng := rand.New(
		rand.NewPCG(w.Seed, uint64(at.link.From)<<48|uint64(at.link.To)<<40|uint64(at.op)<<20|uint64(at.nth)))
	late := func() time.Duration { // in whole milliseconds, which are easier to read
		return time.Duration(1+rng.Int64N(int64(maxDelay/time.Millisecond))) * time.Millisecond
	}
	var faults []Fault
	if rng.Float64() < w.Weather.Loss {
		return []Fault{at.fault(Lose, 0)}
	}
	if rng.Float64() < w.Weather.Late {
		faults = append(faults, at.fault(Delay, late()))
	}
	if rng.Float64() < w.Weather.Repeat {
		faults = append(faults, at.fault(Repeat, late()))
	}
	return faults
}

func (p place) fault(kind FaultKind, by time.Duration) Fault {
	return Fault{p.link, p.op, p.nth, kind, by}
}

// send carries a packet, which there is because of an operation, from a machine to where it is
// addressed to: once, twice, late or never.
func (n *network) send(from Endpoint, op int, p baseline.Packet) {
	link := Link{from, endpointOf(p.To.Addr())}
	one := stream{link, op}
	n.sent[one]++
	faults := n.fate(place{one, n.sent[one]})
	n.acted = append(n.acted, faults...)
	takes, copies := hop, []time.Duration(nil)
	for _, f := range faults {
		switch f.Kind {
		case Lose:
			n.w.noteSend(link, p, faults)
			return
		case Delay:
			takes += f.By
		case Repeat:
			copies = append(copies, f.By)
		}
	}
	n.w.noteSend(link, p, faults)
	n.deliver(takes, link, op, p)
	for _, later := range copies {
		n.deliver(takes+later, link, op, p)
	}
}

func (n *network) deliver(after time.Duration, link Link, op int, p baseline.Packet) {
	n.flying++
	n.w.after(after, func() {
		n.flying--
		n.w.receive(link, op, p)
	})
}
