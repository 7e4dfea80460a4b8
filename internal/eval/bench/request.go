package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// epoch is that of the chains made for a benchmark; they never change.
const epoch = 1

// request says what one load asks for.
type request struct {
	op         wire.Op // OpRead or OpPut
	writeShare float64 // of the requests of a load that reads, that are PUTs instead
	valueBytes int     // of a PUT, and of the answer to a READ
	versionMax uint64  // newest version that an answer may carry; 0: any
	onlySizes  bool    // the other side does not speak the protocol: judge the size of its answers alone
	keys       []wire.Key
	dialect    dialect // the zero value: NetCRAQ
	timing     bool    // note how long answers take
	bundle     bundle  // of NetCRAQ; the zero value: each frame is one request
}

// shareOfWrites is the share as the kernel program takes it: of 2^32.
func (r *request) shareOfWrites() uint64 {
	const all = 1 << 32
	if r.op == wire.OpPut {
		return all
	}
	return uint64(r.writeShare * all)
}

// longest is a buffer for the longest frame of the load and one byte more: the generator cuts off what it does not need,
// and must cut something.
func (r *request) longest(read, put []byte) []byte {
	switch {
	case r.bundle.slots > 0:
		return make([]byte, frame.HeaderBytes+r.bundle.bytes()+1)
	case r.shareOfWrites() == 0:
		return make([]byte, len(read)+1)
	}
	return make([]byte, max(len(read), len(put))+1)
}

// generatorPort is the UDP port that requests come from.
const generatorPort = 9000

// way is how requests travel: out of a port, into the one at the other end of its link, to an address behind it.
type way struct {
	from, to *port
	dest     netip.AddrPort
}

func (w way) source() netip.AddrPort { return netip.AddrPortFrom(w.from.addr, generatorPort) }

// randomKeys are n different wire keys. Any 128 bits are as good as the hash of a user's key.
func randomKeys(n int) []wire.Key {
	keys := make([]wire.Key, n)
	for i := range keys {
		keys[i] = wire.Key{Hi: rand.Uint64(), Lo: rand.Uint64()}
	}
	return keys
}

// valueOf is the value that the kernel's generator stores under a key and its counter expects.
func valueOf(key wire.Key, n int) []byte {
	word, step := hostWord(key.Hi), hostWord(key.Lo)
	value := make([]byte, 0, n+8)
	for ; len(value) < n; word += step {
		value = binary.LittleEndian.AppendUint64(value, word)
	}
	return value[:n]
}

// hostWord is how a big-endian field of a packet reads in the kernel program, which runs on little-endian hosts.
func hostWord(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.LittleEndian.Uint64(b[:])
}
