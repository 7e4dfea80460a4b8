package netcraqpaper

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// DefaultVersions is n where nothing else is said.
const DefaultVersions = 8

// Config is the node's configuration, set by the control plane.
type Config struct {
	Self     netip.Addr
	Next     netip.Addr   // where a WRITE goes on towards the tail; the tail has none
	Tail     netip.Addr   // of the chain; the tail's own if it is this node
	Group    []netip.Addr // the multicast group: the other nodes of the chain; the tail alone uses it
	Keys     uint32       // k: objects, whose ids are 0 to k-1
	Versions uint32       // n: cells of an object, at least 2
}

// IsTail is get_my_role.
func (c *Config) IsTail() bool { return c.Self == c.Tail }

// Validate checks a configuration.
func (c *Config) Validate() error {
	switch {
	case !c.Self.Is4() || !c.Tail.Is4():
		return errors.New("a node has an IPv4 address, and so has its tail")
	case c.IsTail() == c.Next.IsValid() || !c.IsTail() && !c.Next.Is4():
		return fmt.Errorf("node %v: all but the tail have a next node", c.Self)
	case c.Keys < 1 || c.Versions < 2:
		return fmt.Errorf("there is at least one object with two versions, not %d with %d", c.Keys, c.Versions)
	case len(c.Group) >= wire.MaxChain:
		return fmt.Errorf("a chain has at most %d nodes", wire.MaxChain)
	}
	for _, a := range c.Group {
		if !a.Is4() || a == c.Self {
			return fmt.Errorf("%v cannot be in the multicast group of %v", a, c.Self)
		}
	}
	return nil
}

// Object is an object's registers.
type Object struct {
	ReadIndex  uint32  // cell of the newest value; 0: clean
	WriteIndex uint32  // next free cell
	Cells      []Value // n of them
}

// Outcome is the result of handling a packet. Every packet counts once.
type Outcome uint8

// Outcomes.
const (
	Malformed    Outcome = iota // dropped: not a message, or one that only clients receive
	Transit                     // not for this node: passed on as it is
	OutOfRange                  // dropped: KEY_ID is not below k
	CleanRead                   // answered
	DirtyRead                   // answered by the tail
	Forwarded                   // READ of a dirty object, sent to the tail
	CleanWrite                  // WRITE into the first cell, sent on
	DirtyWrite                  // WRITE appended, sent on
	Overflow                    // WRITE dropped: all cells are taken
	Committed                   // WRITE at the tail
	Acknowledged                // ACKNOWLEDGE: into the first cell
	Outcomes
)

// String is the outcome's name.
func (o Outcome) String() string {
	return [Outcomes]string{"malformed", "transit", "out-of-range", "clean-read", "dirty-read", "forwarded",
		"clean-write", "dirty-write",
		"overflow", "committed", "acknowledged"}[o]
}

// State is the complete state of a node.
type State struct {
	Config
	Objects []Object // k of them
	Counts  [Outcomes]uint64
}

// Clone is a copy that shares nothing.
func (s *State) Clone() State {
	c := *s
	c.Group, c.Objects = slices.Clone(s.Group), slices.Clone(s.Objects)
	for i := range c.Objects {
		c.Objects[i].Cells = slices.Clone(c.Objects[i].Cells)
	}
	return c
}

// Validate checks a state before a node takes it.
func (s *State) Validate() error {
	if err := s.Config.Validate(); err != nil {
		return err
	}
	if len(s.Objects) != int(s.Keys) {
		return fmt.Errorf("%d objects for k = %d", len(s.Objects), s.Keys)
	}
	for i, o := range s.Objects {
		if len(o.Cells) != int(s.Versions) || o.ReadIndex >= s.Versions || o.WriteIndex > s.Versions {
			return fmt.Errorf("object %d: %d cells and indices %d and %d for n = %d", i, len(o.Cells), o.ReadIndex,
				o.WriteIndex, s.Versions)
		}
	}
	return nil
}
