package soft

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
)

// NewNetCRAQPaperTarget makes a target that is a node of NetCRAQ as published.
func NewNetCRAQPaperTarget() (*Target[netcraqpaper.State, *netcraqpaper.Node], error) {
	return newTarget(protocol[netcraqpaper.State, *netcraqpaper.Node]{
		port: netcraqpaper.Port, make: func() *netcraqpaper.Node { return new(netcraqpaper.Node) },
		self:        func(s netcraqpaper.State) netip.Addr { return s.Self },
		moveState:   moveNetCRAQPaper,
		movePayload: func(payload []byte, _ func(netip.Addr) netip.Addr) []byte { return slices.Clone(payload) },
	})
}

// moveNetCRAQPaper changes the addresses of the chain.
func moveNetCRAQPaper(s netcraqpaper.State, change func(netip.Addr) netip.Addr) netcraqpaper.State {
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
