package client

import (
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// full is the error of a write that a node had no room for. It says what gives room, which depends on the table and on who
// runs the chain: only controllers have deleted keys collected.
func (k *call) full(node *member, m *wire.Message) error {
	switch managed := k.client().options.Follow != nil; {
	case m.Flags&wire.FlagNoValue == 0 || m.Flags&wire.FlagSession != 0:
		return fmt.Errorf("%s: %w for another session: write from fewer processes, each with one client, wait some minutes "+
			"until old sessions are forgotten, or start the nodes with more --sessions", node.name, ErrFull)
	case managed:
		return fmt.Errorf("%s: %w for another object: delete keys, whose places are free some seconds later, add nodes, or start "+
			"the nodes one after the other with more --objects", node.name, ErrFull)
	}
	return fmt.Errorf("%s: %w for another object, and without controllers deleted keys keep their places: `netcraq backup`, end "+
		"all nodes with `netcraq node --remove`, start them with more --objects, and `netcraq restore`", node.name, ErrFull)
}
