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
	tags   atomic.Uint32 // a [wire.Tags]
	keys   atomic.Pointer[wire.Keyring]
}

// send sends an encoded message.
func (o *outlet) send(message []byte, to netip.AddrPort) error {
	message, err := wire.Tags(o.tags.Load()).Sending(o.keys.Load()).Append(message, wire.Ends{From: o.node, To: to})
	if err != nil {
		return err
	}
	_, err = o.socket.WriteToUDPAddrPort(message, to)
	return err
}
