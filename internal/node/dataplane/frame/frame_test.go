package frame

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

func example() Packet {
	return Packet{
		SourceMAC: MAC{2, 0, 0, 0, 0, 1}, DestMAC: MAC{2, 0, 0, 0, 0, 2},
		From: netip.MustParseAddrPort("192.0.2.1:5000"), To: netip.MustParseAddrPort("192.0.2.2:4411"),
		Message: []byte("message"),
	}
}

// TestBytes keeps the frame that nodes send as it is; the IPv4 checksum was computed by hand.
func TestBytes(t *testing.T) {
	p := example()
	want := []byte{
		2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
		0x45, 0, 0, 35, 0, 0, 0x40, 0, 64, 17, 0xb6, 0xc6, 192, 0, 2, 1, 192, 0, 2, 2,
		0x13, 0x88, 0x11, 0x3b, 0, 15, 0, 0,
		'm', 'e', 's', 's', 'a', 'g', 'e',
	}
	if got := Append(nil, &p); !bytes.Equal(got, want) {
		t.Errorf("\n got %x\nwant %x", got, want)
	}
}

func TestJudge(t *testing.T) {
	p := example()
	sent := Append(nil, &p)
	for _, c := range []struct {
		name    string
		change  func(b []byte) []byte
		outcome wire.Outcome
		ours    bool
	}{
		{"as sent", func(b []byte) []byte { return b }, wire.Accepted, true},
		{"padded", func(b []byte) []byte { return append(b, 0, 0, 0) }, wire.Accepted, true},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, wire.OutcomeTruncated, true},
		{"damaged", func(b []byte) []byte { b[offTTL]--; return b }, wire.OutcomeBadChecksum, true},
		{"to another port", func(b []byte) []byte { b[offDestPort]++; return b }, 0, false},
		{"a fragment", func(b []byte) []byte { b[offFragment] |= 0x20; return b }, 0, false},
		{"headers cut", func(b []byte) []byte { return b[:HeaderBytes-1] }, 0, false},
	} {
		var got Packet
		outcome, ours := Judge(c.change(bytes.Clone(sent)), p.To, &got)
		if outcome != c.outcome || ours != c.ours {
			t.Errorf("%s: %v, %v", c.name, outcome, ours)
		}
		if outcome == wire.Accepted && ours && !bytes.Equal(got.Message, p.Message) {
			t.Errorf("%s: message %q", c.name, got.Message)
		}
	}
}

func TestReadSentFindsEveryChangedByte(t *testing.T) {
	p := example()
	sent := Append(nil, &p)
	if got, err := ReadSent(sent); err != nil || got.To != p.To || !bytes.Equal(got.Message, p.Message) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, at := range []int{offEtherType, offVersionIHL, offVersionIHL + 1, offTotalLength + 1, offFragment, offTTL,
		offProtocol, offIPChecksum, offSource, offUDPLength + 1, offUDPLength + 3} {
		b := bytes.Clone(sent)
		b[at] ^= 4
		if _, err := ReadSent(b); err == nil {
			t.Errorf("a change of byte %d goes unnoticed", at)
		}
	}
}
