package chain_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

var (
	fuzzMembers = []netip.AddrPort{
		netip.MustParseAddrPort("10.0.0.1:4411"), netip.MustParseAddrPort("10.0.0.2:4411"), netip.MustParseAddrPort("10.0.0.3:4411"),
	}
	fuzzClient = netip.MustParseAddrPort("10.0.1.1:50000")
)

// split takes messages out of the fuzzer's bytes: each is led by its length in two bytes, and sealed, since hardly a
// mutation would get past the checksum.
func split(b []byte) [][]byte {
	var list [][]byte
	for len(b) >= 2 {
		n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
		m := b[2 : 2+n]
		if n >= wire.BaseBytes {
			wire.Seal(m)
		}
		list, b = append(list, m), b[2+n:]
	}
	return list
}

func join(messages ...wire.Message) []byte {
	var b []byte
	for _, m := range messages {
		text := m.Append(nil)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	return b
}

// FuzzReceive gives a node messages that anybody may have sent, from every member and from a client, in any place of
// its chain. Nothing may break I1 or I2, and what the node sends must be readable.
func FuzzReceive(f *testing.F) {
	key, err := wire.HashKey([]byte("k"))
	if err != nil {
		f.Fatal(err)
	}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: 1, Value: []byte("12345678")}
	update := wire.Message{Op: wire.OpUpdate, Epoch: 1, Key: key, Session: 2, Seq: 1, Version: 2, Client: fuzzClient,
		ClientOp: wire.OpAdd, Value: make([]byte, 8)}
	ack := wire.Message{Op: wire.OpAck, Epoch: 1, Key: key, Version: 1}
	read := wire.Message{Op: wire.OpRead, Epoch: 1, Key: key}
	for place := range uint8(3) {
		f.Add(join(put, update, ack, read), place)
		f.Add(join(update, ack, put, ack, read), place)
	}
	f.Fuzz(func(t *testing.T, b []byte, place uint8) {
		node := fuzzNode(t, place, false)
		before := make(map[wire.Key]chain.Object)
		for _, m := range split(b) {
			for _, from := range append([]netip.AddrPort{fuzzClient}, fuzzMembers...) {
				for _, s := range node.Receive(0, from, m, nil) {
					checkSent(t, s)
				}
				checkObjects(t, node, before)
			}
		}
	})
}

func fuzzNode(t *testing.T, place uint8, relay bool) *chain.Node {
	t.Helper()
	node := chain.New(chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 4, MaxSessions: 4, Relay: relay})
	config := chain.ShardConfig{Epoch: 1, State: chain.Active, Self: int(place) % len(fuzzMembers), Members: fuzzMembers}
	if err := node.Configure(0, config); err != nil {
		t.Fatal(err)
	}
	if err := node.Grant(0, chain.Forever); err != nil {
		t.Fatal(err)
	}
	return node
}

func checkSent(t *testing.T, s chain.Send) {
	t.Helper()
	var m wire.Message
	b := s.Message.Append(nil)
	switch {
	case s.Message.Op == wire.OpReply:
		if err := wire.DecodeReply(b, &m); err != nil {
			t.Errorf("a client cannot read %x: %v", b, err)
		}
	case s.Message.Hops < wire.MaxHops:
		if outcome := wire.Decode(b, &m); outcome != wire.Accepted {
			t.Errorf("a node cannot read %x: %v", b, outcome)
		}
	}
}

func checkObjects(t *testing.T, node *chain.Node, before map[wire.Key]chain.Object) {
	t.Helper()
	if err := node.CheckInvariants(); err != nil {
		t.Error(err)
	}
	for key, o := range node.Objects() {
		if old := before[key]; o.Committed > o.Version || o.Version < old.Version || o.Committed < old.Committed {
			t.Errorf("object %v went from %+v to %+v", key, old, *o)
		}
		before[key] = *o
	}
}
