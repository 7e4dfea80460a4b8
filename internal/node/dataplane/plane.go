// Package dataplane is the interface of a node's data planes. Below it, soft is the plane in Go on UDP sockets, xdp the
// one in the kernel, and p4 the one on switches; internal/node/chain defines the behaviour of all three.
package dataplane

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Forever is the lease of a static configuration.
const Forever = time.Duration(1<<63 - 1)

// ContendedAfter is how long a version of an object has to stay dirty, from the first CAS or ADD refused for it,
// until a refusal makes its key a contended one ([Plane].Contended); and the least time between two reports of the
// key. It is longer than a write takes to pass a chain, so a key is reported only after a loss.
const ContendedAfter = time.Millisecond

// MaxContended is how many keys [Plane].Contended buffers. Further keys are lost; the next refusal reports them again.
const MaxContended = 256

// Plane is a node's data plane while it runs. Its methods may be called from several goroutines.
type Plane interface {
	// Info describes the plane for people and tools.
	Info() Info
	// ConfigureAll replaces the configurations of all named shards, or of none. When it returns, no
	// packet is handled by an old configuration. A shard that becomes readable here (a full member of its chain) has the
	// lease of the last Renew at once; one that ceases to be has none.
	ConfigureAll(configs map[uint16]chain.ShardConfig) error
	// Config returns the configuration of a shard.
	Config(shard uint16) (chain.ShardConfig, error)
	// Grant lets the shard be read here for d from now, on the plane's own clock; zero withdraws the permission.
	Grant(shard uint16, d time.Duration) error
	// Clock returns the time that leases are measured on, in nanoseconds. It goes on while the machine sleeps.
	Clock() uint64
	// Renew sets the end of the lease of every shard that is readable here. It takes a store a shard, and never waits
	// for a ConfigureAll. It is not called in a static cluster, where Grant gives leases.
	Renew(until uint64) error
	// Counters returns the outcomes of the messages received so far.
	Counters() (chain.Counters, error)
	// Loads returns the load of every shard since the plane was made; the index is the shard.
	Loads() ([]ShardLoad, error)
	// Usage returns how much of the tables is taken. It is called often and costs little.
	Usage() (Usage, error)
	// Memory returns the bytes of the tables, as allocated. It may take many system calls.
	Memory() (uint64, error)
	// Object returns a copy of one object.
	Object(key wire.Key) (chain.Object, bool, error)
	// Dirty returns up to limit objects that are not clean, except in shards whose active tail is this node: a tail holds
	// committed versions only (C2).
	Dirty(limit int) ([]KeyedObject, error)
	// Contended returns the channel of contended keys: keys of objects that stay dirty in one version for [ContendedAfter]
	// while this node refuses CAS and ADD for them as busy (W5). It is never closed.
	Contended() <-chan wire.Key
	// Sessions calls visit for every session, in no order, until it returns false.
	Sessions(visit func(chain.SessionKey, chain.Session) bool) error
	// DropSession forgets a session if its last write is still seq.
	DropSession(k chain.SessionKey, seq uint64) error
	// Export visits, while the plane serves, every wanted object and every session of some shards that is there during
	// all of the call, in no order: each as it was at some moment of the call, and possibly twice. It ends at a visit's
	// first error.
	Export(w Wanted, object func(wire.Key, chain.Object) error, session func(chain.SessionKey, chain.Session) error) error
	// Import stores entries of another node's Export, while the plane serves. An object's version and a session's write take
	// effect iff they are newer than the present ones, and no object becomes less committed. If an entry does not fit, Import
	// returns [ErrFull]; the entries before it are stored.
	Import(objects []KeyedObject, sessions []KeyedSession) error
	// Doubt makes the objects of some shards that are not known to be committed empty ones, without a version, and
	// deletes all sessions of the shards (C8), while the plane serves others. It lists all objects that are empty then,
	// and calls gone, if it is not nil, with each session before it is deleted. A shard whose state is not None is an
	// error.
	Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error)
	// Doubtful lists the objects of some shards that have no version or are not clean (C8), while the plane serves.
	Doubtful(shards []uint16) ([]wire.Key, error)
	// Drop deletes all objects and sessions of some shards, while the plane serves others. A shard whose state is not None
	// is an error.
	Drop(shards []uint16) error
	// Collect deletes, while the plane serves, what may be deleted of the shards in which this node is an active full member
	// (G4). It reports the committed tombstones that remain there, by shard; a shard without any may be missing. When it
	// returns, no packet is handled by a configuration that was replaced before the call. It is ErrNoFloors of a plane
	// that takes no floors (G1).
	Collect() (map[uint16]Tombstones, error)
	// SetKeys replaces the keys of a plane with tags. Before the first ones it takes and sends nothing with a tag. A plane
	// without tags keeps them for later.
	SetKeys(k *wire.Keyring) error
	// SetTags goes to another phase of tags (T6). When it returns, no message is handled as in the one before.
	SetTags(t wire.Tags) error
	// SetHeart tells the plane how to recognise its heartbeats (H1). It answers them from then on, and
	// takes grants by them, without this process. Earlier grants count no more.
	SetHeart(h chain.Heart) error
	// Granted returns the lease that heartbeats granted.
	Granted() (chain.Granted, error)
	// Send sends a message from the node's own address, routed by the kernel.
	Send(s chain.Send) error
	// Close ends this process's use of the plane. State that outlives the process (pinned maps) stays.
	Close() error
}

// Info describes a plane.
type Info struct {
	Plane   string // "soft", "xdp" or "p4"
	Mode    string // xdp: "native" or "generic"; soft: "sockets"; p4: "swx", "p4runtime" or, without registers, "p4packets"
	Why     string // why this mode and no better one; empty for the best
	Addr    netip.AddrPort
	Options chain.Options
	Clones  bool   // ACKs leave by cloning in the data plane (soft: always true)
	NoTags  string // why the plane cannot have tags; empty: it can

	PortTrouble string // why the plane does not answer on all the interfaces that it should; empty: it does
}

// Port is an interface on which a plane answers, or should.
type Port struct {
	Name     string
	Attached bool // the plane answers on it
	Up       bool // it has a link
}

// Usage is how much of a plane's tables is taken.
type Usage struct {
	Objects, Sessions int
}

// ShardLoad counts the reads and writes of a shard at a node.
type ShardLoad struct {
	Reads  uint64 // answered here, those of absent keys too
	Writes uint64 // versions applied here, of the node's own ordering or of another's
}

// Tombstones are committed tombstones of a shard.
type Tombstones struct {
	Count   uint64
	Highest uint64 // version
}

// Add counts a tombstone.
func (t *Tombstones) Add(version uint64) { t.Count, t.Highest = t.Count+1, max(t.Highest, version) }

// Wanted selects objects and sessions of some shards.
type Wanted struct {
	// Since are the shards. Of each, the objects that are dirty and those that became clean after an epoch (W13) are
	// wanted, all if it is 0; and all sessions.
	Since map[uint16]uint32
	Keys  []wire.Key // objects of the shards that are wanted in any case
}

// Everything is all of some shards.
func Everything(shards []uint16) Wanted {
	w := Wanted{Since: make(map[uint16]uint32, len(shards))}
	for _, shard := range shards {
		w.Since[shard] = 0
	}
	return w
}

// Changed reports whether an object is wanted that changed after an epoch.
func Changed(o *chain.Object, since uint32) bool { return since == 0 || !o.Clean() || o.Epoch > since }

// Shards lists the shards.
func (w *Wanted) Shards() []uint16 { return slices.Sorted(maps.Keys(w.Since)) }

// KeyedObject is an object with its key.
type KeyedObject struct {
	Key    wire.Key
	Object chain.Object
}

// KeyedSession is a session with its key.
type KeyedSession struct {
	Key     chain.SessionKey
	Session chain.Session
}

// ErrFull says that a table has no room for more.
var ErrFull = errors.New("the table is full")

// ErrNoFloors says that a plane takes no floors, and so collects no tombstones.
var ErrNoFloors = errors.New("this plane has no floors: it collects no tombstones")

// ServedError says that a shard whose state was to be dropped is still served.
func ServedError(shard uint16) error {
	return fmt.Errorf("shard %d is still in use at this node: its objects are not dropped", shard)
}
