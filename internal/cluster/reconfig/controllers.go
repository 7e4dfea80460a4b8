package reconfig

import (
	"fmt"
	"slices"
)

// Controller is the record of one controller.
type Controller struct {
	Name    string
	Address string // where it serves; it identifies the controller
	Peer    string // address of its embedded etcd for other members; empty: it has none
}

// ControllerSet is the set of controllers whose grants make a lease (L7). A step adds or removes one of them at most, so a
// majority of the set before and one of the set after have a controller in common.
type ControllerSet struct {
	Members []Controller
	Joining Controller // nodes connect to it, and its grants do not count yet; zero: none
	Leaving Controller // its grants do not count any more, and its etcd still has to be removed; zero: none
	Since   uint64     // number of the change that set this; 0: the cluster was formed so
}

// FormedControllers is the set of a cluster that was formed with controllers at some addresses.
func FormedControllers(addresses ...string) ControllerSet {
	var s ControllerSet
	for _, address := range addresses {
		s.Members = append(s.Members, Controller{Address: address})
	}
	return s
}

// Majority is how many controllers' grants a lease needs.
func (s *ControllerSet) Majority() int { return len(s.Members)/2 + 1 }

// Addresses are those of the members, sorted.
func (s *ControllerSet) Addresses() []string {
	addresses := make([]string, len(s.Members))
	for i, m := range s.Members {
		addresses[i] = m.Address
	}
	slices.Sort(addresses)
	return addresses
}

// Has reports whether a controller's grants count.
func (s *ControllerSet) Has(address string) bool {
	return slices.ContainsFunc(s.Members, func(m Controller) bool { return m.Address == address })
}

// Knows reports whether a controller is a member, joins or leaves.
func (s *ControllerSet) Knows(address string) bool {
	return s.Has(address) || address != "" && (s.Joining.Address == address || s.Leaving.Address == address)
}

// Connected are the addresses that nodes and other controllers keep a connection to: the members, and the one that joins.
func (s *ControllerSet) Connected() []string {
	addresses := s.Addresses()
	if s.Joining.Address != "" {
		addresses = append(addresses, s.Joining.Address)
	}
	return addresses
}

// ID identifies the set in heartbeats and grants (H2).
func (s *ControllerSet) ID() uint32 { return SetIDOf(s.Addresses()) }

// Steps reports whether another set has other members.
func (s *ControllerSet) Steps(next *ControllerSet) bool {
	return !slices.Equal(s.Addresses(), next.Addresses())
}

// With adds a member, which was joining.
func (s *ControllerSet) With(c Controller) ControllerSet {
	return ControllerSet{Members: append(slices.Clone(s.Members), c), Leaving: s.Leaving}
}

// Without removes a member, which leaves.
func (s *ControllerSet) Without(c Controller) ControllerSet {
	return ControllerSet{
		Members: slices.DeleteFunc(slices.Clone(s.Members), func(m Controller) bool { return m.Address == c.Address }),
		Joining: s.Joining, Leaving: c,
	}
}

// follows checks a change's set, which may be none, as the next one after another.
func (s *ControllerSet) follows(old *ControllerSet, change uint64) error {
	if s.Since == 0 && len(s.Members) == 0 {
		return nil
	}
	if s.Since != change || len(s.Members) == 0 {
		return fmt.Errorf("%d controllers of change %d", len(s.Members), s.Since)
	}
	differ := 0
	for i, m := range s.Members {
		if m.Address == "" || slices.ContainsFunc(s.Members[:i], func(o Controller) bool { return o.Address == m.Address }) {
			return fmt.Errorf("controller %q stands twice, or is none", m.Address)
		}
		if !old.Has(m.Address) {
			differ++
		}
	}
	for _, m := range old.Members {
		if !s.Has(m.Address) {
			differ++
		}
	}
	switch {
	case differ > 1:
		return fmt.Errorf("%d controllers change at a time", differ)
	case s.Has(s.Joining.Address) || s.Has(s.Leaving.Address):
		return fmt.Errorf("a controller is a member, and joins or leaves")
	}
	return nil
}
