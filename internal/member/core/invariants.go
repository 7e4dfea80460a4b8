package core

import (
	"errors"
	"slices"
)

// CheckInvariants returns an error if the machine is in a state in which no event leaves it. Simulations call it after
// every event.
func (m *Machine) CheckInvariants() error {
	r := &m.record
	switch {
	case m.joined() && r.Number == 0:
		return errors.New("it has joined a view without a number")
	case m.joined() && (m.left != r.View || !m.exposed):
		return errors.New("others may read fast in the view that it has joined, and it does not know")
	case m.joined() && !slices.Contains(m.set, m.o.Member):
		return errors.New("it has joined a view of other members")
	case m.joined() && len(m.leaves) > 0 && m.on(Members):
		return errors.New("it has joined a view, and is asked to leave")
	case !m.joined() && (len(m.grants) > 0 || m.valid):
		return errors.New("it may read fast, and has joined no view")
	case m.bundle.call == 0 && len(m.bundle.reads) > 0:
		return errors.New("reads wait for a call that has ended")
	case !slices.IsSortedFunc(m.reveals, func(a, b reveal) int { return int(a.since - b.since) }):
		return errors.New("what is to be revealed is not in the order in which it was asked for")
	}
	return nil
}
