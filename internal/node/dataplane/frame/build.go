package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// Append builds the frame in which a node sends p behind b: no IP options, type of service 0, identification 0, "don't
// fragment", a time to live of [wire.ReplyTTL], UDP checksum 0 (a message carries its own).
func Append(b []byte, p *Packet) []byte {
	start := len(b)
	b = append(b, make([]byte, HeaderBytes)...)
	b = append(b, p.Message...)
	f := b[start:]
	copy(f[0:], p.DestMAC[:])
	copy(f[6:], p.SourceMAC[:])
	binary.BigEndian.PutUint16(f[offEtherType:], etherTypeIPv4)
	f[offVersionIHL] = versionAndIHL
	binary.BigEndian.PutUint16(f[offTotalLength:], uint16(len(f)-EthernetBytes))
	binary.BigEndian.PutUint16(f[offFragment:], dontFragment)
	f[offTTL] = wire.ReplyTTL
	f[offProtocol] = protocolUDP
	source, dest := p.From.Addr().As4(), p.To.Addr().As4()
	copy(f[offSource:], source[:])
	copy(f[offDestination:], dest[:])
	SetIPChecksum(f)
	binary.BigEndian.PutUint16(f[offSourcePort:], p.From.Port())
	binary.BigEndian.PutUint16(f[offDestPort:], p.To.Port())
	binary.BigEndian.PutUint16(f[offUDPLength:], uint16(len(f)-EthernetBytes-IPv4Bytes))
	return b
}

// SetIPChecksum fills in the IPv4 header checksum of a frame whose other bytes are final.
func SetIPChecksum(f []byte) {
	ip := f[EthernetBytes : EthernetBytes+IPv4Bytes]
	binary.BigEndian.PutUint16(f[offIPChecksum:], 0)
	binary.BigEndian.PutUint16(f[offIPChecksum:], ^wire.Fold(wire.Sum(ip)))
}

// ReadSent reads a frame that a node sent and reports any byte of its headers that [Append] would not have written.
func ReadSent(b []byte) (Packet, error) {
	var p Packet
	if len(b) < HeaderBytes {
		return p, errors.New("a frame shorter than its headers was sent")
	}
	read(b, &p)
	p.Message = b[HeaderBytes:]
	want := Append(nil, &p)
	for i := range want[:HeaderBytes] {
		if want[i] != b[i] {
			return p, fmt.Errorf("byte %d of the frame's headers is %#02x, not %#02x", i, b[i], want[i])
		}
	}
	return p, nil
}

// Content returns the payload of a UDP packet over IPv4 to any address, if its lengths agree.
func Content(b []byte) ([]byte, bool) {
	p, ok := Datagram(b)
	return p.Message, ok
}

// Datagram is Content with the addresses.
func Datagram(b []byte) (Packet, bool) {
	var p Packet
	if len(b) < HeaderBytes {
		return p, false
	}
	read(b, &p)
	outcome, ours := Judge(b, p.To, &p)
	return p, ours && outcome == wire.Accepted
}

// Replace puts another content into a packet of [Content]; padding behind it is gone.
func Replace(b, content []byte) []byte {
	f := append(append(make([]byte, 0, HeaderBytes+len(content)), b[:HeaderBytes]...), content...)
	binary.BigEndian.PutUint16(f[offTotalLength:], uint16(len(f)-EthernetBytes))
	binary.BigEndian.PutUint16(f[offUDPLength:], uint16(len(f)-EthernetBytes-IPv4Bytes))
	SetIPChecksum(f)
	return f
}
