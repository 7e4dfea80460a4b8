package chain

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// Object is one key's state at a node. It is clean iff Version == Committed.
type Object struct {
	Version   uint64 // newest applied; it never falls (I2)
	Committed uint64 // newest known committed: at most Version (I1), and it never falls (I2)
	Epoch     uint32 // of the configuration in which it became clean, here or where it was copied from; 0 while it is dirty
	Tombstone bool   // the newest version deleted the key
	Value     []byte // of the newest version, of at most Options.CellBytes; empty if the key does not exist
	Reads     uint64 // answered from this copy
	Writes    uint64 // versions applied
}

// Clean reports whether no write of the object is under way, as far as this node knows.
func (o *Object) Clean() bool { return o.Version == o.Committed }

// commit raises the committed version, in a configuration of some epoch.
func (o *Object) commit(version uint64, epoch uint32) {
	if version <= o.Committed {
		return
	}
	if o.Committed = version; o.Clean() {
		o.Epoch = epoch
	}
}

// absent reports whether the key does not exist for a reader.
func (o *Object) absent() bool { return o.Version == 0 || o.Tombstone }

// SessionKey names the entry of a session in one shard.
type SessionKey struct {
	Session uint64
	Shard   uint16
}

// Session is the entry of a session in one shard: the last write in it. It is zero if there was none yet
// (Options.EarlySessions).
type Session struct {
	Seq     uint64 // of that write; it never falls
	Version uint64 // that the write got, 1 or more; of a refused write: the version that refused it
	Result  uint64 // ADD: the new value; else the write's [Digest], 0 if it is not known
	KeyLo   uint64 // of the key written, so that a session cannot be misused for another
	Op      wire.Op
	Status  wire.Status // OK, or the refusal that is repeated to a retry
}

// Send is one message a node wants sent.
type Send struct {
	To      netip.AddrPort
	Message wire.Message
}

// Counters counts received messages by op and outcome.
type Counters map[Counter]uint64

// Counter names one count.
type Counter struct {
	Op      wire.Op
	Outcome wire.Outcome
}

// Node is one node of any number of chains. The zero value is not usable: see [New].
type Node struct {
	options  Options
	shards   []shard
	counters Counters
	answered Credits

	// The state of the chains. There are at most options.MaxObjects objects and options.MaxSessions sessions, but for
	// those that were placed. See [Object] and [Session] for what holds of each.
	objects  map[wire.Key]*Object
	sessions map[SessionKey]Session

	// Who holds the sessions (W14). Each entry of owners is one of sessions, and is counted once, in the holder that it
	// names. Sessions copied from another node have no owner.
	owners  map[SessionKey]uint16
	holders map[uint16]*holder

	// The leases. renewed, the last [Node.Renew], is at most latest, the latest end of any.
	renewed uint64
	latest  uint64
	heart   *heart // nil: no heartbeats are taken
}

type shard struct {
	config     ShardConfig
	leaseUntil uint64 // nanoseconds on the caller's clock
	load       Load
}

// Load counts the reads and writes of a shard at a node.
type Load struct {
	Reads  uint64 // answered here, those of absent keys too
	Writes uint64 // versions applied here
}

// New makes a node without state that serves no shard. The options must be valid.
func New(o Options) *Node {
	return &Node{
		options:  o,
		shards:   make([]shard, o.Shards),
		objects:  make(map[wire.Key]*Object),
		sessions: make(map[SessionKey]Session),
		owners:   make(map[SessionKey]uint16),
		holders:  make(map[uint16]*holder),
		counters: make(Counters),
	}
}

// Configure replaces the configuration of a shard. A shard that becomes readable has the lease of the last
// [Node.Renew], if there was one; one that ceases to be readable has none.
func (n *Node) Configure(number uint16, c ShardConfig) error {
	if err := n.check(number); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("shard %d: %w", number, err)
	}
	s := &n.shards[number]
	was := s.config.Readable()
	s.config = c
	switch is := c.Readable(); {
	case was && !is:
		s.leaseUntil = 0
	case is && !was && n.renewed != 0:
		s.leaseUntil = n.renewed
	}
	return nil
}

// ConfigureAll is [Node.Configure] of all shards named, or of none if one of them is not valid.
func (n *Node) ConfigureAll(configs map[uint16]ShardConfig) error {
	if err := ValidateAll(configs, len(n.shards)); err != nil {
		return err
	}
	for number, c := range configs {
		if err := n.Configure(number, c); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) check(number uint16) error {
	if int(number) >= len(n.shards) {
		return fmt.Errorf("shard %d: there are %d", number, len(n.shards))
	}
	return nil
}

// SetTags goes to another phase of tags (T6), which decides for how long a refused write may come again (W14).
func (n *Node) SetTags(t wire.Tags) { n.options.Tags = t }

// Config returns the configuration of a shard.
func (n *Node) Config(number uint16) ShardConfig { return n.shards[number].config }

// Grant sets the expiry of the shard's read lease, in nanoseconds on the clock whose time is passed to [Node.Receive].
func (n *Node) Grant(number uint16, until uint64) error {
	if err := n.check(number); err != nil {
		return err
	}
	n.shards[number].leaseUntil = until
	return nil
}

// Renew sets the expiry of the leases of all shards that are readable.
func (n *Node) Renew(until uint64) {
	n.renewed, n.latest = until, max(n.latest, until)
	for i := range n.shards {
		if s := &n.shards[i]; s.config.Readable() {
			s.leaseUntil = until
		}
	}
}

// Load returns the load of a shard.
func (n *Node) Load(number uint16) Load { return n.shards[number].load }

// Lease returns the expiry that was set last.
func (n *Node) Lease(number uint16) uint64 { return n.shards[number].leaseUntil }

// Counters returns the live counts; the caller must not change them.
func (n *Node) Counters() Counters { return n.counters }

// Objects returns the live objects; the caller must not change them.
func (n *Node) Objects() map[wire.Key]*Object { return n.objects }

// Sessions returns the live sessions; the caller must not change them.
func (n *Node) Sessions() map[SessionKey]Session { return n.sessions }

// PutObject places a copy of an object as it is: for scenarios.
func (n *Node) PutObject(k wire.Key, o Object) {
	o.Value = bytes.Clone(o.Value)
	n.objects[k] = &o
}

// PutSession places a session as it is: for scenarios.
func (n *Node) PutSession(k SessionKey, s Session) { n.sessions[k] = s }

// MergeObject takes over another node's copy of an object, if that is newer, and its mark, if that is higher. It
// returns false if the table is full.
func (n *Node) MergeObject(k wire.Key, o Object) bool {
	object := n.object(k)
	if object == nil {
		return false
	}
	if o.Version > object.Version {
		object.set(o.Version, o.Value, o.Tombstone)
	}
	object.commit(o.Committed, o.Epoch)
	return true
}

// MergeSession takes over another node's memory of a session, if that is newer. It returns false if the table is full.
func (n *Node) MergeSession(k SessionKey, s Session) bool {
	last, ok := n.sessions[k]
	if !ok && len(n.sessions) >= n.options.MaxSessions {
		return false
	}
	if s.Seq > last.Seq {
		n.sessions[k] = s
	}
	return true
}

// Doubtful lists the objects of some shards that have no version or are not clean (C8).
func (n *Node) Doubtful(has func(shard uint16) bool) []wire.Key {
	var keys []wire.Key
	for k, o := range n.objects {
		if (o.Version == 0 || !o.Clean()) && has(k.Shard(len(n.shards))) {
			keys = append(keys, k)
		}
	}
	return keys
}

// DropObject forgets an object.
func (n *Node) DropObject(k wire.Key) { delete(n.objects, k) }

// DropSession forgets a session whose last write is still seq; a session that moved on is kept.
func (n *Node) DropSession(k SessionKey, seq uint64) {
	if s, ok := n.sessions[k]; ok && s.Seq == seq {
		delete(n.sessions, k)
		n.release(k)
	}
}

// object returns the key's object, made if need be; nil if the table is full.
func (n *Node) object(k wire.Key) *Object {
	if o := n.objects[k]; o != nil {
		return o
	}
	if len(n.objects) >= n.options.MaxObjects {
		return nil
	}
	o := new(Object)
	n.objects[k] = o
	return o
}

// apply stores a version that is newer than the object's own, and counts it.
func (s *shard) apply(o *Object, version uint64, value []byte, tombstone bool) {
	o.set(version, value, tombstone)
	o.Writes++
	s.load.Writes++
}

func (o *Object) set(version uint64, value []byte, tombstone bool) {
	o.Version, o.Epoch = version, 0
	o.Value = append(o.Value[:0], value...)
	o.Tombstone = tombstone
}
