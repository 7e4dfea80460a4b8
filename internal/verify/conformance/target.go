package conformance

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Net is the network in which all nodes and clients of a test stand.
var Net = netip.MustParsePrefix("10.77.0.0/24")

// Me is the address of the node under test.
var Me = netip.AddrPortFrom(netip.MustParseAddr("10.77.0.2"), wire.Port)

// MACOf is the Ethernet address of the host with the given IPv4 address.
func MACOf(a netip.Addr) frame.MAC {
	b := a.As4()
	return frame.MAC{0x02, 0x00, b[0], b[1], b[2], b[3]}
}

// Target is a plane under test: one node at the address [Me].
type Target interface {
	// Name is how reports call the target.
	Name() string
	// Reset makes a node without state, counts or configuration. It is called before each case.
	Reset(chain.Options) error
	// Load adds configurations, leases, objects and sessions; it ignores counters.
	Load(State) error
	// Step hands the node one frame and returns its verdict and the frames that the node sent. If it passed, the
	// one frame returned is the one that the kernel got.
	Step(frame []byte) (Verdict, [][]byte, error)
	// State returns objects, sessions and the counts since Reset that are not zero. It leaves out configurations.
	State() (State, error)
	// Close frees the target's resources.
	Close() error
}

// NearbyTarget is a target that processes of its machine can read without a packet (R6).
type NearbyTarget interface {
	// Nearby reads a key; ok is false if the process has to ask through the network.
	Nearby(key wire.Key) (r NearbyRead, ok bool, err error)
}

// NearbyRead is the answer to such a read.
type NearbyRead struct {
	Version uint64
	Epoch   uint32
	Value   string
}

// State is a node's state. The zero value is that of a new node.
type State struct {
	Shards   map[uint16]Shard
	Objects  map[wire.Key]chain.Object
	Sessions map[chain.SessionKey]chain.Session
	Counters chain.Counters
	Heart    *chain.Heart // nil: no heartbeats are taken; loaded only
}

// Shard is a node's configuration of a shard.
type Shard struct {
	Config chain.ShardConfig
	Lease  time.Duration // from now: dataplane.Forever, over if negative, never granted if zero
}

// Verdict is the result of a frame.
type Verdict uint8

const (
	// Pass: not the node's, handed to the kernel as it came.
	Pass Verdict = iota
	// Drop: consumed, nothing sent.
	Drop
	// Sent: consumed, at least one frame sent.
	Sent
)

// String is the verdict's name in the vectors.
func (v Verdict) String() string {
	return [...]string{"pass", "drop", "sent"}[v]
}
