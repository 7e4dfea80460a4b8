package soft

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

// NewPublishedTarget makes a target that is a node of NetCRAQ as published.
func NewPublishedTarget() (*Target[published.State, *published.Node], error) {
	return newTarget(protocol[published.State, *published.Node]{
		port: published.Port, make: func() *published.Node { return new(published.Node) },
		self:        func(s published.State) netip.Addr { return s.Self },
		moveState:   movePublished,
		movePayload: func(payload []byte, _ func(netip.Addr) netip.Addr) []byte { return slices.Clone(payload) },
	})
}

// movePublished changes the addresses of the chain.
func movePublished(s published.State, change func(netip.Addr) netip.Addr) published.State {
	moved := s.Clone()
	moved.Self, moved.Tail = change(s.Self), change(s.Tail)
	if s.Next.IsValid() {
		moved.Next = change(s.Next)
	}
	for i, a := range s.Group {
		moved.Group[i] = change(a)
	}
	return moved
}
