// Package ether puts packets of the papers' protocols into Ethernet frames, for nodes below sockets.
package ether

import (
	"encoding/binary"
	"fmt"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
)

// Addresses of the node under test, and of all other hosts.
var (
	NodeMAC  = frame.MAC{2, 0, 0, 0, 0, 1}
	OtherMAC = frame.MAC{2, 0, 0, 0, 0, 2}
)

// leastBytes is the length to which Ethernet pads a frame.
const leastBytes = 60

// Frame is a packet on its way to the node.
func Frame(p baseline.Packet) []byte {
	b := frame.Append(nil,
		&frame.Packet{SourceMAC: OtherMAC, DestMAC: NodeMAC, From: p.From, To: p.To, Message: p.Payload})
	for len(b) < leastBytes {
		b = append(b, 0)
	}
	return b
}

// Packet reads a frame that the node sent or let pass.
func Packet(b []byte) (baseline.Packet, error) {
	length := frame.EthernetBytes + int(binary.BigEndian.Uint16(b[frame.EthernetBytes+2:]))
	if length > len(b) {
		return baseline.Packet{}, fmt.Errorf("a frame of %d bytes says that it has %d", len(b), length)
	}
	p, err := frame.ReadSent(b[:length])
	return baseline.Packet{From: p.From, To: p.To, Payload: p.Message}, err
}
