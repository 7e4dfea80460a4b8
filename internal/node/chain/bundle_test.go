package chain_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// pack puts the fuzzer's messages into the slots of bundles, in order; a message too long for a slot is left out.
func pack(messages [][]byte, slotBytes int) (bundles []wire.Bundle) {
	var b wire.Bundle
	next := 0
	for _, encoded := range messages {
		if next == len(bundles)*wire.SlotsOf(slotBytes) {
			b = wire.NewBundle(nil, wire.SlotsOf(slotBytes), slotBytes)
			bundles = append(bundles, b)
		}
		var m wire.Message
		if wire.Peek(encoded, &m) && b.Put(next%b.Count(), &m) {
			next++
		}
	}
	return bundles
}

// isReply reports whether a slot holds a reply.
func isReply(b wire.Bundle, i int) bool {
	encoded, _ := b.Message(i)
	var m wire.Message
	return wire.Peek(encoded, &m) && m.Op == wire.OpReply
}

// FuzzReceiveBundle: a bundle does what its messages do that come alone one after the other, but for those that do not
// travel in bundles, which leave nothing behind.
func FuzzReceiveBundle(f *testing.F) {
	key, err := wire.HashKey([]byte("k"))
	if err != nil {
		f.Fatal(err)
	}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: 1, Value: []byte("12345678")}
	again := put
	cas := wire.Message{Op: wire.OpCAS, Epoch: 1, Key: key, Session: 3, Seq: 1, Operand: 2, Value: []byte("other")}
	update := wire.Message{Op: wire.OpUpdate, Epoch: 1, Key: key, Session: 2, Seq: 1, Version: 2, Client: fuzzClient,
		ClientOp: wire.OpPut, Value: make([]byte, 8)}
	relay := wire.Message{Op: wire.OpRelay, Epoch: 1, Key: key, Session: 2, Seq: 1, Version: 2, Client: fuzzClient, ClientOp: wire.OpPut}
	forward := wire.Message{Op: wire.OpForward, Epoch: 1, Key: key, Client: fuzzClient, ClientOp: wire.OpRead}
	read := wire.Message{Op: wire.OpRead, Epoch: 1, Key: key}
	reply := wire.Message{Op: wire.OpReply, Epoch: 1, Key: key, Version: 1}
	for place := range uint8(3) {
		for sender := range uint8(4) {
			f.Add(join(put, again, read, cas, update, relay, forward, reply), place, sender, uint8(0))
			f.Add(join(read, update, relay, put, relay, cas, read), place, sender, uint8(15))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, place, sender, longer uint8) {
		from := append([]netip.AddrPort{fuzzClient}, fuzzMembers...)[int(sender)%(1+len(fuzzMembers))]
		node, single := fuzzNode(t, place, false), fuzzNode(t, place, true)
		before := make(map[wire.Key]chain.Object)
		for _, b := range pack(split(text), wire.SlotFor(wire.VersionBytes+int(longer)*8)) {
			came := wire.Bundle(bytes.Clone(b))
			_, sends := node.ReceiveBundle(0, from, b)
			if !b.Sound() {
				t.Fatalf("%x is no sound bundle", b)
			}
			sent, made := 0, 0
			for i := range b.Count() {
				if encoded, _ := b.Message(i); len(encoded) > 0 {
					sent++
					if !isReply(came, i) {
						made++
					}
					compareSlot(t, single, from, came, b, i)
				}
			}
			// Replies alone do not go back to where they came from (B5).
			if sends && sent == 0 || !sends && made > 0 {
				t.Errorf("%d messages are sent, %d of them made here: %v", sent, made, sends)
			}
			checkObjects(t, node, before)
		}
		for k, o := range single.Objects() {
			if got := node.Objects()[k]; got == nil || got.Version != o.Version || got.Committed != o.Committed || !bytes.Equal(got.Value, o.Value) {
				t.Errorf("object %v is %+v, single %+v", k, got, o)
			}
		}
		if len(node.Objects()) != len(single.Objects()) {
			t.Errorf("%d objects, single %d", len(node.Objects()), len(single.Objects()))
		}
	})
}

// compareSlot gives the message of a slot to a node as a single message, unless a bundle refuses it, and compares the
// messages sent.
func compareSlot(t *testing.T, single *chain.Node, from netip.AddrPort, came, b wire.Bundle, i int) {
	t.Helper()
	encoded, _ := came.Message(i)
	sent, _ := b.Message(i)
	var m, answer wire.Message
	wire.Peek(encoded, &m)
	wire.Peek(sent, &answer)
	if m.Op == wire.OpReply || answer.Op == wire.OpReply && answer.Status() == wire.StatusBusy {
		return
	}
	out := single.Receive(0, from, encoded, nil)
	if len(out) != 1 || !bytes.Equal(out[0].Message.Append(nil), sent) {
		t.Errorf("slot %d of %v becomes %+v, single %+v", i, m.Op, answer, out)
	}
}
