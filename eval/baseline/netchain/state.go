package netchain

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Config is fixed while a node runs.
type Config struct {
	Self       netip.Addr
	Wide       bool // SEQ has 32 bits; messages of the other width are malformed
	Slots      int  // places in the register arrays
	ValueBytes int  // longest value, CompareBytes to MaxValueBytes
	Groups     int  // virtual groups
}

// Validate checks a configuration.
func (c *Config) Validate() error {
	switch {
	case !c.Self.Is4():
		return fmt.Errorf("%v is not an IPv4 address", c.Self)
	case c.Slots < 1:
		return errors.New("a node has at least one place for a value")
	case c.ValueBytes < CompareBytes || c.ValueBytes > MaxValueBytes:
		return fmt.Errorf("a value has room for %d to %d bytes, not %d", CompareBytes, MaxValueBytes, c.ValueBytes)
	case c.Groups < 1 || c.Groups > 1<<16:
		return fmt.Errorf("there are 1 to %d virtual groups, not %d", 1<<16, c.Groups)
	}
	return nil
}

// Cell is a place in the register arrays.
type Cell struct {
	Seq   uint32 // of which a node of 16 bits uses as many
	Value []byte
}

// Target selects the packets of a failure rule: those of a virtual group to an address.
type Target struct {
	To    netip.Addr
	Group uint16
}

// Action is the effect of a failure rule.
type Action uint8

const (
	// Skip sends them to the next of the list: fast failover.
	Skip Action = iota + 1
	// Block drops them: phase one of recovery, in which the new node is brought up to date.
	Block
	// Replace sends them to another node: phase two of recovery.
	Replace
)

// String is the action's name.
func (a Action) String() string {
	names := [...]string{Skip: "skip", Block: "block", Replace: "replace"}
	if a < Skip || int(a) >= len(names) {
		return fmt.Sprintf("action %d", uint8(a))
	}
	return names[a]
}

// Rule is a failure rule. By is set for Replace alone.
type Rule struct {
	Action Action
	By     netip.Addr
}

// Outcome is the result of handling a packet. Every packet counts once.
type Outcome uint8

// Outcomes.
const (
	Malformed  Outcome = iota // dropped: not a message of the node's width, or one that says too much
	Transit                   // not for this node: passed on as it is
	Redirected                // not for this node: a failure rule sent it elsewhere
	Blocked                   // dropped by a failure rule
	Answered                  // READ
	Missing                   // the key has no place here: NOT_FOUND
	Ordered                   // WRITE or CAS from a client: it got the next number
	Accepted                  // WRITE with a greater number than the node's own
	Stale                     // WRITE with another number: dropped
	Refused                   // CAS that found another value
	Outcomes
)

// String is the outcome's name.
func (o Outcome) String() string {
	return [Outcomes]string{
		"malformed", "transit", "redirected", "blocked", "answered",
		"missing", "ordered", "accepted", "stale", "refused",
	}[o]
}

// State is the complete state of a node.
type State struct {
	Config
	Index  map[Key]uint32 // places of keys, written by the control plane alone
	Cells  []Cell         // Slots of them
	Rules  map[Target]Rule
	Counts [Outcomes]uint64
}

// Clone is a copy that shares nothing.
func (s *State) Clone() State {
	c := *s
	c.Index, c.Rules = maps.Clone(s.Index), maps.Clone(s.Rules)
	c.Cells = slices.Clone(s.Cells)
	for i := range c.Cells {
		c.Cells[i].Value = slices.Clone(c.Cells[i].Value)
	}
	return c
}

// Validate checks a state before a node takes it.
func (s *State) Validate() error {
	if err := s.Config.Validate(); err != nil {
		return err
	}
	if len(s.Cells) != s.Slots {
		return fmt.Errorf("%d cells for %d places", len(s.Cells), s.Slots)
	}
	for i, c := range s.Cells {
		if len(c.Value) > s.ValueBytes || !s.Wide && c.Seq > 1<<16-1 {
			return fmt.Errorf("cell %d: the value or its number is too long", i)
		}
	}
	for k, slot := range s.Index {
		if int64(slot) >= int64(s.Slots) {
			return fmt.Errorf("key %x has place %d of %d", k, slot, s.Slots)
		}
	}
	for t, r := range s.Rules {
		if !t.To.Is4() || t.To == s.Self || r.By == s.Self || int(t.Group) >= s.Groups ||
			(r.Action == Replace) != r.By.Is4() ||
			r.Action < Skip ||
			r.Action > Replace {
			return fmt.Errorf("failure rule %v for %v is not valid", r, t)
		}
	}
	return nil
}
