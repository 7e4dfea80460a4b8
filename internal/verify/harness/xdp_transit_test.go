package harness

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// Offsets in a frame.
const (
	offTTL       = 22
	offUDPLength = 39 // its low byte
)

// TestTransit routes a message to another node and another node's answer by the FIB: to the next
// hop's address, with a decremented TTL and a correct checksum.
func TestTransit(t *testing.T) {
	roottest.Need(t)
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Transit = []netip.Prefix{conformance.Net}
	if err := m.Reset(chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 1, MaxSessions: 1}); err != nil {
		t.Fatal(err)
	}
	read := (&wire.Message{Op: wire.OpRead, Key: wire.Key{Hi: 1}}).Append(nil)
	reply := (&wire.Message{Op: wire.OpReply, Key: wire.Key{Hi: 1}}).Append(nil)
	t.Run("request", func(t *testing.T) { testTransit(t, m, passing(transitClient, at(4), read)) })
	t.Run("answer", func(t *testing.T) { testTransit(t, m, passing(at(9), netip.AddrPortFrom(at(4).Addr(), 50000), reply)) })
}

var transitClient = netip.AddrPortFrom(at(9).Addr(), 50000)

// passing is a frame from one host to another, by way of the node.
func passing(from, to netip.AddrPort, message []byte) []byte {
	return frame.Append(nil, &frame.Packet{
		SourceMAC: conformance.MACOf(from.Addr()), DestMAC: conformance.MACOf(conformance.Me.Addr()),
		From: from, To: to, Message: message,
	})
}

// TestTransitIsForNodesMessages: what is no message, or not to or from a node of the networks for transit, is left to the
// kernel, whose filters see it; without such networks everything is.
func TestTransitIsForNodesMessages(t *testing.T) {
	roottest.Need(t)
	read := (&wire.Message{Op: wire.OpRead, Key: wire.Key{Hi: 1}}).Append(nil)
	reply := (&wire.Message{Op: wire.OpReply, Key: wire.Key{Hi: 1}}).Append(nil)
	update := (&wire.Message{Op: wire.OpUpdate, Key: wire.Key{Hi: 1}}).Append(nil)
	changed := func(at int, to byte) []byte {
		b := bytes.Clone(read)
		b[at] = to
		return b
	}
	client := netip.AddrPortFrom(at(4).Addr(), 50000)
	short := passing(transitClient, at(4), read)
	short[offUDPLength]++
	frames := map[string][]byte{
		"text":                  passing(transitClient, at(4), bytes.Repeat([]byte("x"), 100)),
		"nothing":               passing(transitClient, at(4), nil),
		"another version":       passing(transitClient, at(4), changed(2, 9)),
		"an unknown op":         passing(transitClient, at(4), changed(3, 99)),
		"a REPLY to a node":     passing(transitClient, at(4), reply),
		"a request to a client": passing(at(9), client, read),
		"an UPDATE to a client": passing(at(9), client, update),
		"lengths that differ":   short,
		"more than any message": passing(transitClient, at(4), append(bytes.Clone(read), make([]byte, 1450)...)),
	}
	outside := map[string][]byte{
		"a request to a node elsewhere": passing(transitClient, at(4), read),
		"an answer of one elsewhere":    passing(at(9), client, reply),
		"from one elsewhere to another": passing(at(9), at(4), update),
	}
	for _, c := range []struct {
		nets   []netip.Prefix
		frames map[string][]byte
	}{
		{[]netip.Prefix{conformance.Net}, frames},
		{[]netip.Prefix{netip.PrefixFrom(at(128).Addr(), 25), netip.MustParsePrefix("192.0.2.0/24")}, outside},
		{nil, outside},
	} {
		m, err := NewXDP()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		m.Transit = c.nets
		if err := m.Reset(chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 1, MaxSessions: 1}); err != nil {
			t.Fatal(err)
		}
		for name, f := range c.frames {
			if verdict, out, err := m.Step(bytes.Clone(f)); err != nil || verdict != conformance.Pass || !bytes.Equal(out[0], f) {
				t.Errorf("transit for %v: %s: %v, %v", c.nets, name, verdict, err)
			}
		}
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
