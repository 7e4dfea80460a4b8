package wire

import (
	"bytes"
	"net/netip"
	"testing"
)

// corpus are messages of every kind; mutations of them reach every check.
func corpus() [][]byte {
	client := netip.MustParseAddrPort("192.0.2.9:50000")
	key := Key{Hi: 1, Lo: 2}
	var list [][]byte
	for _, m := range []Message{
		{Op: OpRead, Key: key, Request: 1},
		{Op: OpRead, Flags: FlagBounded, Detail: 50, Key: key},
		{Op: OpPut, Key: key, Session: 1, Seq: 1, Value: []byte("value")},
		{Op: OpDelete, Key: key, Session: 1, Seq: 2},
		{Op: OpCAS, Key: key, Session: 1, Seq: 3, Operand: 4, Value: []byte("other")},
		{Op: OpAdd, Key: key, Session: 1, Seq: 4, Operand: 1},
		{Op: OpForward, Key: key, Client: client, ClientOp: OpRead},
		{Op: OpUpdate, Key: key, Session: 1, Seq: 5, Version: 6, Client: client, ClientOp: OpPut,
			Value: bytes.Repeat([]byte{7}, MaxValueBytes)},
		{Op: OpRelay, Key: key, Session: 1, Seq: 5, Version: 6, Client: client, ClientOp: OpAdd, Value: make([]byte, 8)},
		{Op: OpAck, Key: key, Version: 6},
		{Op: OpProbe, Key: key, Version: 6},
		{Op: OpReply, Key: key, Version: 6, Detail: uint16(StatusCASFailed), Flags: FlagTail, Value: []byte("v")},
	} {
		list = append(list, m.Append(nil))
	}
	return list
}

// FuzzDecode checks that decoding any bytes is safe, and that the fields of an accepted message are complete: encoding them
// again gives the same bytes.
func FuzzDecode(f *testing.F) {
	for _, b := range corpus() {
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) >= BaseBytes { // else hardly a mutation would get past the checksum
			b = bytes.Clone(b)
			Seal(b)
		}
		var m Message
		if Decode(b, &m) == Accepted {
			if again := m.Append(nil); !bytes.Equal(b, again) {
				t.Errorf("%x is read as %+v, which is %x", b, m, again)
			}
		}
		if DecodeReply(b, &m) == nil && m.Op != OpReply {
			t.Errorf("%x is taken for a reply", b)
		}
	})
}
