package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// epoch is the epoch of all benchmark chains; they are never reconfigured.
const epoch = 1

// request describes the requests of one load.
type request struct {
	op         wire.Op // OpRead or OpPut
	writeShare float64 // share of PUTs among the requests of an OpRead load
	valueBytes int     // in a PUT and in the answer to a READ
	versionMax uint64  // highest version allowed in an answer; 0: any
	onlySizes  bool    // check only the size of answers, for peers without the protocol
	keys       []wire.Key
	dialect    dialect // the zero value: NetCRAQ
	timing     bool    // record latencies
	bundle     bundle  // of NetCRAQ; the zero value: each frame is one request
}

// shareOfWrites returns the share as a fraction of 2^32, as the kernel program takes it.
func (r *request) shareOfWrites() uint64 {
	const all = 1 << 32
	if r.op == wire.OpPut {
		return all
	}
	return uint64(r.writeShare * all)
}

// longest returns a buffer one byte longer than the longest frame of the load. The generator
// truncates it to the frame and cannot truncate by 0 bytes.
func (r *request) longest(read, put []byte) []byte {
	switch {
	case r.bundle.slots > 0:
		return make([]byte, frame.HeaderBytes+r.bundle.bytes()+1)
	case r.shareOfWrites() == 0:
		return make([]byte, len(read)+1)
	}
	return make([]byte, max(len(read), len(put))+1)
}

// generatorPort is the UDP source port of requests.
const generatorPort = 9000

// way is the path of requests: out of a port, into the port at the other end of its link, to an
// address behind it.
type way struct {
	from, to *port
	dest     netip.AddrPort
}

func (w way) source() netip.AddrPort { return netip.AddrPortFrom(w.from.addr, generatorPort) }

// randomKeys returns n different wire keys. Random 128-bit numbers stand in for hashes of users'
// keys.
func randomKeys(n int) []wire.Key {
	keys := make([]wire.Key, n)
	for i := range keys {
		keys[i] = wire.Key{Hi: rand.Uint64(), Lo: rand.Uint64()}
	}
	return keys
}

// valueOf returns the value that the kernel's generator stores under a key and its counter expects.
func valueOf(key wire.Key, n int) []byte {
	word, step := hostWord(key.Hi), hostWord(key.Lo)
	value := make([]byte, 0, n+8)
	for ; len(value) < n; word += step {
		value = binary.LittleEndian.AppendUint64(value, word)
	}
	return value[:n]
}

// hostWord returns a big-endian packet field as the kernel program reads it, on a little-endian
// host.
func hostWord(v uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v)
	return binary.LittleEndian.Uint64(b[:])
}
