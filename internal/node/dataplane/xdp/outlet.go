package xdp

import (
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/netcraq/netcraq/wire"
)

// outlet is how this process, and not the program, sends messages of the node's own: through the socket, tagged where
// messages are (T1).
type outlet struct {
	socket *net.UDPConn
	node   netip.AddrPort
	tags   bool
	keys   atomic.Pointer[wire.Keyring]
}

// send sends an encoded message.
func (o *outlet) send(message []byte, to netip.AddrPort) error {
	if o.tags {
		ring := o.keys.Load()
		if ring == nil {
			return wire.ErrNoKey
		}
		tagged, err := ring.Append(message, wire.Ends{From: o.node, To: to})
		if err != nil {
			return err
		}
		message = tagged
	}
	_, err := o.socket.WriteToUDPAddrPort(message, to)
	return err
}
