package wire

import (
	"bytes"
	"slices"
	"testing"
)

func TestSlotsHoldWhatTheyAreFor(t *testing.T) {
	for _, c := range []struct{ message, slot, most int }{
		{1, 52, 27}, {BaseBytes, 52, 27}, {VersionBytes, 52, 27}, {VersionBytes + 1, 56, 25},
		{ChainBytes, 100, 14}, {ChainBytes + 16, 116, 12}, {ChainBytes + 17, 120, 12}, {MaxMessageBytes - 12, 1440, 1},
	} {
		slot := SlotFor(c.message)
		if slot != c.slot || SlotsOf(slot) != c.most {
			t.Errorf("%d bytes: slots of %d, want %d, and %d of them, want %d", c.message, slot, c.slot, SlotsOf(slot), c.most)
		}
		if b := NewBundle(nil, SlotsOf(slot), slot); !b.Sound() || !IsBundle(b) || b.Room() < c.message {
			t.Errorf("a full bundle of slots of %d is not sound, no bundle, or its room of %d too small", slot, b.Room())
		}
	}
}

func TestBundleIsSound(t *testing.T) {
	const slot = 100
	whole := func() Bundle { return NewBundle(nil, 3, slot) }
	for name, change := range map[string]func(Bundle) Bundle{
		"no slot":            func(b Bundle) Bundle { b[offBundleCount] = 0; return b[:BundleBytes+40] },
		"a slot too many":    func(b Bundle) Bundle { b[offBundleCount]++; return b },
		"a slot too few":     func(b Bundle) Bundle { b[offBundleCount]--; return b },
		"more than the most": func(Bundle) Bundle { return NewBundle(nil, MaxSlots+1, MinSlotBytes) },
		"reserved byte":      func(b Bundle) Bundle { b[offBundleReserved] = 1; return b },
		"a byte longer":      func(b Bundle) Bundle { return append(b, 0) },
		"a byte shorter":     func(b Bundle) Bundle { return b[:len(b)-1] },
		"slots too short":    func(Bundle) Bundle { return NewBundle(nil, 3, MinSlotBytes-4) },
		"uneven slots":       func(Bundle) Bundle { return NewBundle(nil, 3, slot+2) },
		"too long":           func(Bundle) Bundle { return NewBundle(nil, 15, slot) },
	} {
		if b := change(whole()); b.Sound() || !IsBundle(b) {
			t.Errorf("%s: sound, or no bundle", name)
		}
	}
	if b := whole(); !b.Sound() {
		t.Error("a whole bundle is not sound")
	}
}

func TestIsBundle(t *testing.T) {
	b := NewBundle(nil, 1, MinSlotBytes)
	for i := range offBundleCount {
		damaged := bytes.Clone(b)
		if damaged[i]++; IsBundle(damaged) {
			t.Errorf("with another byte %d it is a bundle", i)
		}
	}
	if !IsBundle(b) || !IsBundle(b[:BaseBytes]) || IsBundle(b[:BaseBytes-1]) {
		t.Error("a bundle is told by its first bytes, if A1 lets it through")
	}
	if read := (&Message{Op: OpRead}).Append(nil); IsBundle(read) {
		t.Error("a READ is a bundle")
	}
}

// TestSlotsAreSeparate: writing into a slot changes neither other slots nor the bytes behind the message in its own.
func TestSlotsAreSeparate(t *testing.T) {
	b := NewBundle(nil, 3, SlotFor(ChainBytes+8))
	put := Message{Op: OpPut, Session: 1, Seq: 1, Key: Key{1, 2}, Value: []byte("12345678")}
	for i := range b.Count() {
		if !b.Put(i, &put) {
			t.Fatal("no room")
		}
	}
	before := bytes.Clone(b)
	reply := Message{Op: OpReply, Key: put.Key, Version: 1}
	if !b.Put(1, &reply) {
		t.Fatal("no room for the reply")
	}
	b.Clear(2)
	got, ok := b.Message(1)
	if !ok || !bytes.Equal(got, reply.Append(nil)) {
		t.Errorf("slot 1 has %x", got)
	}
	if got, ok := b.Message(2); !ok || len(got) != 0 {
		t.Errorf("slot 2 has %x", got)
	}
	if got, ok := b.Message(0); !ok || !bytes.Equal(got, put.Append(nil)) {
		t.Errorf("slot 0 has %x", got)
	}
	if tail := SlotBytes + VersionBytes; !bytes.Equal(b.slot(1)[tail:], Bundle(before).slot(1)[tail:]) ||
		!bytes.Equal(b.slot(2)[SlotBytes:], Bundle(before).slot(2)[SlotBytes:]) {
		t.Error("bytes behind a message changed")
	}
}

func TestPutOfAValueInItsOwnSlot(t *testing.T) {
	b := NewBundle(nil, 2, SlotFor(ChainBytes+8))
	put := Message{Op: OpPut, Session: 1, Seq: 1, Value: []byte("12345678")}
	b.Put(0, &put)
	encoded, _ := b.Message(0)
	var m Message
	if Decode(encoded, &m) != Accepted {
		t.Fatal("what was put is not accepted")
	}
	reply := Message{Op: OpReply, Version: 3, Value: m.Value} // stands 48 bytes before m.Value
	want := reply.Append(nil)
	if !b.Put(0, &reply) {
		t.Fatal("no room")
	}
	if got, _ := b.Message(0); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestPutNeedsRoom(t *testing.T) {
	b := NewBundle(nil, 1, MinSlotBytes)
	before := bytes.Clone(b)
	for _, m := range []Message{{Op: OpPut}, {Op: OpReply, Value: []byte("1")}} {
		if b.Put(0, &m) || !bytes.Equal(b, before) {
			t.Errorf("%v of %d bytes went into a room of %d, or left something there", m.Op,
				headerBytes(m.Op)+len(m.Value), b.Room())
		}
	}
	if !b.Put(0, &Message{Op: OpReply}) {
		t.Error("a slot without room for a reply")
	}
}

func TestDamagedSlotHeadersAreNoticed(t *testing.T) {
	b := NewBundle(nil, 1, MinSlotBytes)
	b.Put(0, &Message{Op: OpRead})
	for bit := range 8 * SlotBytes {
		damaged := bytes.Clone(b)
		damaged[BundleBytes+bit/8] ^= 1 << (bit % 8)
		if _, ok := Bundle(damaged).Message(0); ok {
			t.Errorf("bit %d is missed", bit)
		}
	}
	b.setLength(0, b.Room()+1)
	if _, ok := b.Message(0); ok {
		t.Error("a message longer than its slot is there")
	}
	b.setLength(0, b.Room())
	if got, ok := b.Message(0); !ok || len(got) != b.Room() {
		t.Error("a message as long as its slot is not there")
	}
}

func TestNewBundleUsesItsBuffer(t *testing.T) {
	buffer := bytes.Repeat([]byte{0xaa}, 256)
	b := NewBundle(buffer, 2, MinSlotBytes)
	if &b[0] != &buffer[0] || !slices.Equal(b, NewBundle(nil, 2, MinSlotBytes)) {
		t.Error("another buffer, or its old bytes")
	}
	if b := NewBundle(buffer[:0:16], 2, MinSlotBytes); !b.Sound() {
		t.Error("a short buffer makes a bundle that is not sound")
	}
}

// FuzzBundle: any valid bundle can be read and written slot by slot, and stays valid.
func FuzzBundle(f *testing.F) {
	full := NewBundle(nil, 6, SlotFor(MaxMessageBytes/8))
	for i, m := range corpus()[:full.Count()] {
		copy(full.slot(i)[SlotBytes:], m)
		full.setLength(i, len(m))
	}
	f.Add([]byte(full))
	f.Add([]byte(NewBundle(nil, SlotsOf(MinSlotBytes), MinSlotBytes)))
	f.Fuzz(func(t *testing.T, b []byte) {
		if !IsBundle(b) || !Bundle(b).Sound() {
			return
		}
		bundle := Bundle(b)
		for i := range bundle.Count() {
			encoded, ok := bundle.Message(i)
			if len(encoded) > bundle.Room() || (!ok && encoded != nil) {
				t.Fatalf("slot %d of room %d has %d bytes", i, bundle.Room(), len(encoded))
			}
			var m Message
			if !ok || !Peek(encoded, &m) || !bundle.Put(i, &m) {
				bundle.Clear(i)
			}
			if _, ok := bundle.Message(i); !ok || !bundle.Sound() {
				t.Fatalf("slot %d is damaged by what was written", i)
			}
		}
	})
}
