package bench

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Protocol names the protocol of the nodes and the generator.
type Protocol string

// Protocols. NetCRAQ is this project's protocol. The others follow the papers exactly
// (eval/spec/baselines.md).
const (
	NetCRAQ      Protocol = "netcraq"
	NetChain     Protocol = "netchain"
	NetCRAQPaper Protocol = "netcraq-published"
)

// dialect describes a protocol to the generator. The zero value is NetCRAQ, whose writes and reads
// go to the same node.
type dialect struct {
	protocol Protocol
	wide     bool            // NetChain only: SEQ has 32 bits
	lists    [2][]netip.Addr // NetChain only: address lists behind the value of a READ and of a WRITE
	writes   netip.AddrPort  // destination of writes; invalid: same as reads
}

const (
	// windowPort is the first UDP source port of requests without an id. Each outstanding request
	// has its own port.
	windowPort = 1 << 14
	// listMax is the capacity of an address list in the kernel program.
	listMax = 8
)

// number returns the protocol's value of the kernel program's enum dialect.
func (d *dialect) number() uint8 {
	switch d.protocol {
	case NetChain:
		return 1
	case NetCRAQPaper:
		return 2
	}
	return 0
}

func (d *dialect) clientPort() uint16 {
	if d.number() == 0 {
		return generatorPort
	}
	return windowPort
}

// addresses returns the lists as words of the kernel program.
func (d *dialect) addresses() (words [2][listMax]uint32) {
	for kind, list := range d.lists {
		for i, a := range list {
			four := a.As4()
			words[kind][i] = binary.LittleEndian.Uint32(four[:])
		}
	}
	return words
}

// frames returns the templates of a READ and of a write. The generator fills in the request id or
// port, key, session, seq and value. In a bundle each template holds one request behind the headers
// of the frame.
func (d *dialect) frames(r *request, w way) (read, write []byte) {
	value := make([]byte, r.valueBytes)
	to := w.dest
	if d.writes.IsValid() {
		to = d.writes
	}
	switch d.protocol {
	case NetChain:
		ask := netchain.Message{Op: netchain.Read, Wide: d.wide, List: d.lists[0]}
		put := netchain.Message{Op: netchain.Write, Wide: d.wide, List: d.lists[1], Value: value}
		return w.frame(w.dest, ask.Append(nil)), w.frame(to, put.Append(nil))
	case NetCRAQPaper:
		ask, put := netcraqpaper.Message{Op: netcraqpaper.Read}, netcraqpaper.Message{Op: netcraqpaper.Write}
		return w.frame(w.dest, ask.Append(nil)), w.frame(to, put.Append(nil))
	}
	ask, put := wire.Message{Op: wire.OpRead, Epoch: epoch}, wire.Message{Op: wire.OpPut, Epoch: epoch, Value: value}
	if r.bundle.slots > 0 {
		headers := w.frame(w.dest, wire.NewBundle(nil, r.bundle.slots, r.bundle.slotBytes))[:frame.HeaderBytes]
		return ask.Append(slices.Clone(headers)), put.Append(slices.Clone(headers))
	}
	return w.frame(w.dest, ask.Append(nil)), w.frame(to, put.Append(nil))
}

// frame returns a packet that carries message to the address to.
func (w way) frame(to netip.AddrPort, message []byte) []byte {
	return frame.Append(nil, &frame.Packet{
		SourceMAC: frame.MAC(w.from.mac), DestMAC: frame.MAC(w.to.mac), From: w.source(), To: to, Message: message,
	})
}

// netcraqPaperKeys returns the keys 0 to n-1 of NetCRAQ as published.
func netcraqPaperKeys(n int) []wire.Key {
	keys := make([]wire.Key, n)
	for i := range keys {
		keys[i].Lo = uint64(i)
	}
	return keys
}

// netcraqPaperValue returns the value that the kernel's generator stores under a key of NetCRAQ as
// netcraqpaper.
func netcraqPaperValue(key uint32) (v netcraqpaper.Value) {
	high := uint64(key) * 0x9e3779b97f4a7c15
	binary.BigEndian.PutUint64(v[:], high)
	binary.BigEndian.PutUint64(v[8:], high^uint64(key))
	return v
}
