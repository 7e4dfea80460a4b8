package frame

import (
	"encoding/binary"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// Lengths of the headers below a message, in bytes.
const (
	EthernetBytes = 14
	IPv4Bytes     = 20
	UDPBytes      = 8
	HeaderBytes   = EthernetBytes + IPv4Bytes + UDPBytes
)

const (
	etherTypeIPv4 = 0x0800
	versionAndIHL = 0x45 // IPv4 without options
	protocolUDP   = 17
	fragmentBits  = 0x3fff // "more fragments" and the offset
	dontFragment  = 0x4000
)

// Where fields stand in a frame without VLAN tag and without IP options.
const (
	offEtherType   = 12
	offVersionIHL  = EthernetBytes
	offTotalLength = EthernetBytes + 2
	offFragment    = EthernetBytes + 6
	offTTL         = EthernetBytes + 8
	offProtocol    = EthernetBytes + 9
	offIPChecksum  = EthernetBytes + 10
	offSource      = EthernetBytes + 12
	offDestination = EthernetBytes + 16
	offSourcePort  = EthernetBytes + IPv4Bytes
	offDestPort    = EthernetBytes + IPv4Bytes + 2
	offUDPLength   = EthernetBytes + IPv4Bytes + 4
)

// MAC is an Ethernet address.
type MAC [6]byte

// Packet is a frame's content.
type Packet struct {
	SourceMAC, DestMAC MAC
	From, To           netip.AddrPort
	Message            []byte // aliases the frame; Ethernet padding is cut off
}

// Judge reads a received frame on behalf of the node at the given address. Frames that are not for the node's port
// are not ours: they pass to the kernel untouched. Of ours, the outcome is [wire.Accepted], or says why the frame is
// dropped before any message is read from it.
func Judge(b []byte, node netip.AddrPort, p *Packet) (outcome wire.Outcome, ours bool) {
	if !addressed(b, node) {
		return 0, false
	}
	ip := b[EthernetBytes : EthernetBytes+IPv4Bytes]
	if wire.Fold(wire.Sum(ip)) != 0xffff {
		return wire.OutcomeBadChecksum, true
	}
	total := int(binary.BigEndian.Uint16(b[offTotalLength:]))
	udp := int(binary.BigEndian.Uint16(b[offUDPLength:]))
	if total > len(b)-EthernetBytes || total < IPv4Bytes+UDPBytes || udp != total-IPv4Bytes {
		return wire.OutcomeTruncated, true
	}
	read(b, p)
	p.Message = b[HeaderBytes : EthernetBytes+total]
	return wire.Accepted, true
}

// addressed reports whether the frame is a whole, plain UDP packet to the node.
func addressed(b []byte, node netip.AddrPort) bool {
	return len(b) >= HeaderBytes &&
		binary.BigEndian.Uint16(b[offEtherType:]) == etherTypeIPv4 &&
		b[offVersionIHL] == versionAndIHL &&
		b[offProtocol] == protocolUDP &&
		binary.BigEndian.Uint16(b[offFragment:])&fragmentBits == 0 &&
		netip.AddrFrom4([4]byte(b[offDestination:])) == node.Addr() &&
		binary.BigEndian.Uint16(b[offDestPort:]) == node.Port()
}

func read(b []byte, p *Packet) {
	p.DestMAC, p.SourceMAC = MAC(b[0:]), MAC(b[6:])
	p.From = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[offSource:])), binary.BigEndian.Uint16(b[offSourcePort:]))
	p.To = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[offDestination:])), binary.BigEndian.Uint16(b[offDestPort:]))
}
