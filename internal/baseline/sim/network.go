package sim

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/baseline"
)

// firstClientPort is the port of the first operation; every operation has one of its own, so that answers are matched where
// messages have no request id.
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

// network carries packets and decides their fate.
type network struct {
	w      *world
	sent   map[Link]int
	faults map[Link]map[int][]Fault // those that are given
	acted  []Fault                  // those that happened
	flying int                      // packets under way
}

func newNetwork(w *world) network {
	n := network{w: w, sent: make(map[Link]int), faults: make(map[Link]map[int][]Fault)}
	for _, f := range w.Faults {
		if n.faults[f.Link] == nil {
			n.faults[f.Link] = make(map[int][]Fault)
		}
		n.faults[f.Link][f.Nth] = append(n.faults[f.Link][f.Nth], f)
	}
	return n
}

// fate lists what happens to the n-th packet of a link.
func (n *network) fate(link Link, nth int) []Fault {
	w := n.w
	if w.calm {
		return nil
	}
	if !w.Drawn {
		return n.faults[link][nth]
	}
	for _, b := range w.Weather.Bursts {
		if b.Link == link && w.now >= b.From && w.now < b.Until {
			return []Fault{{link, nth, Lose, 0}}
		}
	}
	rng := rand.New(rand.NewPCG(w.Seed, uint64(link.From)<<48|uint64(link.To)<<32|uint64(nth)))
	late := func() time.Duration { // in whole milliseconds, which are easier to read
		return time.Duration(1+rng.Int64N(int64(mostLate/time.Millisecond))) * time.Millisecond
	}
	var faults []Fault
	if rng.Float64() < w.Weather.Loss {
		return []Fault{{link, nth, Lose, 0}}
	}
	if rng.Float64() < w.Weather.Late {
		faults = append(faults, Fault{link, nth, Delay, late()})
	}
	if rng.Float64() < w.Weather.Repeat {
		faults = append(faults, Fault{link, nth, Repeat, late()})
	}
	return faults
}

// send carries a packet from a machine to where it is addressed to: once, twice, late or never.
func (n *network) send(from Endpoint, p baseline.Packet) {
	link := Link{from, endpointOf(p.To.Addr())}
	n.sent[link]++
	faults := n.fate(link, n.sent[link])
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
	n.deliver(takes, link, p)
	for _, later := range copies {
		n.deliver(takes+later, link, p)
	}
}

func (n *network) deliver(after time.Duration, link Link, p baseline.Packet) {
	n.flying++
	n.w.after(after, func() {
		n.flying--
		n.w.receive(link, p)
	})
}
