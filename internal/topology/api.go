package topology

import (
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// APIPort is the TCP port of a node's agent, at the node's own address, unless the cluster file says otherwise.
const APIPort = wire.Port + 1

// ControllerPort is the TCP port of a controller, unless configured otherwise.
const ControllerPort = wire.Port + 2

// APIAddr is where the node's agent listens.
func (n Node) APIAddr() string {
	if n.API != "" {
		return n.API
	}
	return DefaultAPI(n.Addr)
}

// DefaultAPI is where the agent of a node at addr listens if nobody says otherwise.
func DefaultAPI(addr netip.AddrPort) string {
	return netip.AddrPortFrom(addr.Addr(), APIPort).String()
}
