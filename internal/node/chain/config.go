package chain

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// State says whether a shard takes writes at this node.
type State uint8

const (
	// None: the node is not in the shard's chain.
	None State = iota
	// Active: the normal state.
	Active
	// Frozen: no client writes, no UPDATEs, no ACKs; clean reads go on under the lease (C1).
	Frozen
)

// String is the state's name as it stands in configurations.
func (s State) String() string {
	switch s {
	case None:
		return "none"
	case Active:
		return "active"
	case Frozen:
		return "frozen"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Forever is the expiry of a lease in a static configuration, where no member can be removed from the chain.
const Forever = uint64(math.MaxUint64)

// ShardConfig is a node's configuration of one shard's chain.
type ShardConfig struct {
	Epoch   uint32
	State   State
	Learner bool             // receives writes but has no read permission (C3)
	Self    int              // this node's place in Members
	Members []netip.AddrPort // head first, tail last; at most wire.MaxChain; IPv4
	// Base is, while the node is out of the chain or a learner, the epoch in which it was last a full member and from
	// which it keeps its objects (C7); 0: it keeps none.
	Base uint32
	// Floor: the head gives new versions above it (G1). Bar, at most the floor: all versions up to it are committed on
	// the whole chain (G2), so that tombstones up to it can be collected (G4).
	Floor, Bar uint64
}

// Readable reports whether this node is a full member of the chain: one that answers reads while its lease lasts.
func (c *ShardConfig) Readable() bool { return c.State != None && !c.Learner }

// Head reports whether this node orders the shard's writes.
func (c *ShardConfig) Head() bool { return c.Self == 0 }

// Tail reports whether this node commits the shard's writes.
func (c *ShardConfig) Tail() bool { return c.Self == len(c.Members)-1 }

func (c *ShardConfig) next() netip.AddrPort { return c.Members[c.Self+1] }
func (c *ShardConfig) tail() netip.AddrPort { return c.Members[len(c.Members)-1] }

// other reports whether a is the address of another member of the chain.
func (c *ShardConfig) other(a netip.AddrPort) bool {
	for i, m := range c.Members {
		if m == a && i != c.Self {
			return true
		}
	}
	return false
}

// Validate checks a configuration before a plane takes it.
func (c *ShardConfig) Validate() error {
	if c.State == None {
		return nil
	}
	if len(c.Members) == 0 || len(c.Members) > wire.MaxChain {
		return fmt.Errorf("a chain has 1 to %d members, not %d", wire.MaxChain, len(c.Members))
	}
	if c.Self < 0 || c.Self >= len(c.Members) {
		return fmt.Errorf("own place %d is outside the chain of %d", c.Self, len(c.Members))
	}
	if c.Learner && (c.Head() || c.Tail()) {
		return errors.New("a learner stands strictly inside the chain")
	}
	if c.Bar > c.Floor {
		return fmt.Errorf("bar %d is above the floor, %d", c.Bar, c.Floor)
	}
	for i, m := range c.Members {
		if !m.Addr().Is4() || m.Port() == 0 {
			return fmt.Errorf("member %v is not an IPv4 address and port", m)
		}
		for _, other := range c.Members[:i] {
			if other == m {
				return fmt.Errorf("member %v stands twice in the chain", m)
			}
		}
	}
	return nil
}

// ValidateAll checks configurations for a node of so many shards.
func ValidateAll(configs map[uint16]ShardConfig, shards int) error {
	for number, c := range configs {
		if int(number) >= shards {
			return fmt.Errorf("shard %d: there are %d", number, shards)
		}
		if err := c.Validate(); err != nil {
			return fmt.Errorf("shard %d: %w", number, err)
		}
	}
	return nil
}

// Rule names a rule of the protocol that tests can switch off, to prove that its absence is noticed.
type Rule uint16

// Rules that can be switched off.
const (
	W2  Rule = 1 << iota // exactly-once: without it a retry is a new write
	W5                   // ADD and CAS on clean objects only
	W8                   // ACKs raise the committed version only; without it any ACK marks the object clean
	R4                   // read permission is a lease; without it a full member answers for ever
	G1                   // new versions are above the floor
	G3                   // an UPDATE at or below the bar is late; without it, it is applied where the object is absent
	G4                   // only tombstones up to the bar are collected; without it, all are
	H4                   // a node whose clock stood still has no lease
	W12                  // entries are forgotten after ForgetAfter only; without it, at once under pressure
	W14                  // no copy of a write refused for want of a session entry is taken later
)

// rules are the names of the rules, in the order of their bits.
var rules = []string{"W2", "W5", "W8", "R4", "G1", "G3", "G4", "H4", "W12", "W14"}

// ParseRule reads a rule's name.
func ParseRule(s string) (Rule, error) {
	for i, name := range rules {
		if s == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("rule %q cannot be switched off: want one of %v", s, rules)
}

// Options are fixed for a node's life.
type Options struct {
	Shards      int // of the cluster: a power of two, 1 to wire.MaxShards
	CellBytes   int // longest value the node stores, 8 to wire.MaxValueBytes
	MaxObjects  int // most objects, tombstones included
	MaxSessions int // most session entries: one a session and shard
	// ClientSessions is the number of session entries that one client address may hold, 0 for any number (W14).
	ClientSessions int
	Tags           wire.Tags // how far messages have a trailer with a tag (T1, T6) at first; planes see to it
	ClientRate     int       // messages a second that one client may send, 0 for any number (T4); planes see to it
	AnswerRate     int       // bytes a second of long answers that one address may get, 0 for any number (T7)
	Relay          bool      // as a tail, send the ACK up the chain instead of cloning it (W7)
	NoDigest       bool      // sessions keep no digests: a plane that cannot compute them (W2)
	// EarlySessions: the plane makes a session's entry before it knows whether there is something to record, and FULL
	// for want of one leaves the outcome open (without W14).
	EarlySessions bool
	Without       Rule // rules switched off; zero outside tests
}

// maxClientRate is a message each 100 ns; maxAnswerRate costs a byte a nanosecond and more.
const (
	maxClientRate = 10_000_000
	maxAnswerRate = 1_000_000_000
)

// Validate checks the options before a plane is made of them.
func (o *Options) Validate() error {
	switch {
	case o.Shards < 1 || o.Shards > wire.MaxShards || o.Shards&(o.Shards-1) != 0:
		return fmt.Errorf("the number of shards is a power of two from 1 to %d, not %d", wire.MaxShards, o.Shards)
	case o.CellBytes < 8 || o.CellBytes > wire.MaxValueBytes:
		return fmt.Errorf("a cell has 8 to %d bytes, not %d", wire.MaxValueBytes, o.CellBytes)
	case o.ClientRate < 0 || o.ClientRate > maxClientRate:
		return fmt.Errorf("a client may send 1 to %d messages a second, or 0 for any number, not %d", maxClientRate, o.ClientRate)
	case o.AnswerRate < 0 || o.AnswerRate > maxAnswerRate:
		return fmt.Errorf("an address may get 1 to %d bytes a second of long answers, or 0 for any number, not %d",
			maxAnswerRate, o.AnswerRate)
	case o.MaxObjects < 1 || o.MaxSessions < 1:
		return errors.New("room for at least one object and one session is needed")
	case o.ClientSessions < 0:
		return fmt.Errorf("a client may hold 1 session entry or more, or 0 for any number, not %d", o.ClientSessions)
	}
	return nil
}
