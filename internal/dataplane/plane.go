// Package dataplane says what every data plane of a node must do. Below it, soft is the one in Go on UDP sockets
// and xdp the one in the kernel; internal/chain says how both must behave.
package dataplane

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/wire"
)

// Forever is the lease of a static configuration.
const Forever = time.Duration(1<<63 - 1)

// Plane is a node's data plane while it runs. Its methods may be called from several goroutines.
type Plane interface {
	// Info describes the plane for people and tools.
	Info() Info
	// Configure replaces what the plane knows of a shard; when it returns, no packet is handled by the old configuration.
	Configure(shard uint16, c chain.ShardConfig) error
	// Config returns what the plane knows of a shard.
	Config(shard uint16) (chain.ShardConfig, error)
	// Grant lets the shard be read here for d from now, on the plane's own clock; zero withdraws the permission.
	Grant(shard uint16, d time.Duration) error
	// Counters returns what became of the messages received so far.
	Counters() (chain.Counters, error)
	// Usage returns how much of the tables is taken.
	Usage() (Usage, error)
	// Object returns a copy of one object.
	Object(key wire.Key) (chain.Object, bool, error)
	// Dirty returns up to limit objects that are not clean.
	Dirty(limit int) ([]DirtyObject, error)
	// Sessions calls visit for every session, in no order, until it returns false.
	Sessions(visit func(chain.SessionKey, chain.Session) bool) error
	// DropSession forgets a session if its last write is still seq.
	DropSession(k chain.SessionKey, seq uint64) error
	// Send sends a message from the node's own address, routed by the kernel.
	Send(s chain.Send) error
	// Close ends this process's use of the plane. State that outlives the process (pinned maps) stays.
	Close() error
}

// Info describes a plane.
type Info struct {
	Plane   string // "soft" or "xdp"
	Mode    string // xdp: "native" or "generic"; soft: "sockets"
	Why     string // why this mode and no better one; empty for the best
	Addr    netip.AddrPort
	Options chain.Options
	Clones  bool // ACKs leave by cloning in the data plane (soft: always true)
}

// Usage is how much of a plane's tables is taken.
type Usage struct {
	Objects, Sessions int
	MemoryBytes       uint64 // of the tables, as allocated
}

// DirtyObject is an object with a write under way.
type DirtyObject struct {
	Key    wire.Key
	Object chain.Object
}
