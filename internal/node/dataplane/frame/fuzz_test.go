package frame

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// FuzzJudge checks that any frame is judged without harm, and that a message is never longer than what arrived.
func FuzzJudge(f *testing.F) {
	node, client := netip.MustParseAddrPort("192.0.2.1:4411"), netip.MustParseAddrPort("192.0.2.9:50000")
	m := wire.Message{Op: wire.OpRead}
	p := Packet{From: client, To: node, Message: m.Append(nil)}
	frame := Append(nil, &p)
	f.Add(frame)
	f.Add(append(bytes.Clone(frame), 0, 0, 0)) // Ethernet padding
	f.Add(frame[:len(frame)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		outcome, ours := Judge(b, node, &p)
		if !ours || outcome != wire.Accepted {
			return
		}
		if p.To != node || len(p.Message) > len(b)-HeaderBytes {
			t.Errorf("%x is read as %+v", b, p)
		}
	})
}
