package harness

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

const offTTL = 22 // in a frame

// TestTransit routes a message to another node and another node's answer by the FIB: to the next
// hop's address, with a decremented TTL and a correct checksum.
func TestTransit(t *testing.T) {
	needRoot(t)
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Transit = true
	if err := m.Reset(chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 1, MaxSessions: 1}); err != nil {
		t.Fatal(err)
	}
	read := wire.Message{Op: wire.OpRead, Key: wire.Key{Hi: 1}}
	client := netip.AddrPortFrom(at(4).Addr(), 50000)
	for name, to := range map[string]netip.AddrPort{"request": at(4), "answer": client} {
		t.Run(name, func(t *testing.T) {
			testTransit(t, m, frame.Append(nil, &frame.Packet{
				SourceMAC: conformance.MACOf(at(9).Addr()), DestMAC: conformance.MACOf(conformance.Me.Addr()),
				From: at(9), To: to, Message: read.Append(nil),
			}))
		})
	}
}

func testTransit(t *testing.T, m *XDP, in []byte) {
	for ttl, want := range map[byte]conformance.Verdict{
		64: conformance.Sent, 2: conformance.Sent, 1: conformance.Pass, 0: conformance.Pass,
	} {
		in[offTTL] = ttl
		frame.SetIPChecksum(in)
		verdict, out, err := m.Step(bytes.Clone(in))
		if err != nil {
			t.Fatal(err)
		}
		if verdict != want {
			t.Fatalf("TTL %d: %v, want %v", ttl, verdict, want)
		}
		expected := bytes.Clone(in)
		if want == conformance.Sent {
			next, me := conformance.MACOf(at(4).Addr()), conformance.MACOf(conformance.Me.Addr())
			copy(expected[0:], next[:])
			copy(expected[6:], me[:])
			expected[offTTL]--
			frame.SetIPChecksum(expected)
		}
		if !bytes.Equal(out[0], expected) {
			t.Errorf("TTL %d:\ngot  %x\nwant %x", ttl, out[0], expected)
		}
	}
}
