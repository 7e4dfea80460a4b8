package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/wire"
)

// In vectors a bundle stands in one line: "bundle slot=BYTES", then "|" and a message, or "empty", for each slot.
const (
	bundleWord       = "bundle"
	emptyWord        = "empty"
	slotMark         = "|"
	defaultSlotBytes = wire.SlotBytes + wire.ChainBytes + 16
)

// bundle reads the words of a bundle behind its name.
func (c *Case) bundle(w *words) []byte {
	parts := w.split(slotMark)
	slotBytes := int(w.number("slot", 16, defaultSlotBytes))
	b := wire.NewBundle(nil, len(parts), slotBytes)
	for i, part := range parts {
		c.addSlot(part, rawSlot(b, i))
		if err := part.done(); err != nil {
			w.fail(fmt.Errorf("slot %d: %w", i, err))
		}
	}
	return b
}

// addSlot reads a message with its changes; length and bad-check change the slot's own header.
func (c *Case) addSlot(w *words, slot []byte) {
	if len(w.pairs) > 0 && w.pairs[0].name == emptyWord {
		w.next()
		return
	}
	encoded := w.message(c.message(w).Append(nil))
	if len(encoded) > len(slot)-wire.SlotBytes {
		w.fail(fmt.Errorf("%d bytes do not fit", len(encoded)))
		return
	}
	setSlot(slot, encoded)
	setLength(slot, uint16(w.number("length", 16, uint64(len(encoded)))))
	if w.flag("bad-check") {
		slot[wire.SlotBytes-1] ^= 1
	}
}

// setSlot writes bytes that need not be a message into a slot that has room for them.
func setSlot(slot, encoded []byte) {
	copy(slot[wire.SlotBytes:], encoded)
	setLength(slot, uint16(len(encoded)))
}

// setLength writes a slot's header.
func setLength(slot []byte, n uint16) {
	binary.BigEndian.PutUint16(slot, n)
	binary.BigEndian.PutUint16(slot[2:], ^n)
}

// rawSlot is a slot of a sound bundle with its header.
func rawSlot(b wire.Bundle, i int) []byte {
	n := b.Room() + wire.SlotBytes
	return b[wire.BundleBytes+i*n:][:n]
}

// showBundle shows an outgoing bundle. Every byte can be told from the text and from the bundle that came.
func (c *Case) showBundle(came, b wire.Bundle) (string, error) {
	if !b.Sound() || !bytes.Equal(came[:wire.BundleBytes], b[:wire.BundleBytes]) {
		return "", fmt.Errorf("a bundle was sent that is not sound or has another header: %x", b)
	}
	text := fmt.Sprintf("%s slot=%d", bundleWord, b.Room()+wire.SlotBytes)
	for i := range b.Count() {
		encoded, ok := b.Message(i)
		if !ok {
			return "", fmt.Errorf("slot %d was sent with a damaged header", i)
		}
		shown := emptyWord
		if len(encoded) > 0 {
			var err error
			if shown, err = c.showBytes(encoded, new(wire.Message)); err != nil {
				return "", fmt.Errorf("slot %d: %w", i, err)
			}
		}
		if behind := wire.SlotBytes + len(encoded); !bytes.Equal(rawSlot(came, i)[behind:], rawSlot(b, i)[behind:]) {
			return "", fmt.Errorf("slot %d: the bytes behind the message changed", i)
		}
		text += " " + slotMark + " " + shown
	}
	return text, nil
}

// describeDatagram shows a message or bundle of any content to people.
func describeDatagram(b []byte) string {
	c := newCase("")
	var m wire.Message
	switch {
	case wire.IsHeartbeat(b):
		shown, err := showHeartbeat(b)
		if err != nil {
			return fmt.Sprintf("%v: %x", err, b)
		}
		return shown
	case isSoundBundle(b):
		parts := []string{fmt.Sprintf("%s slot=%d", bundleWord, wire.Bundle(b).Room()+wire.SlotBytes)}
		for i := range wire.Bundle(b).Count() {
			encoded, ok := wire.Bundle(b).Message(i)
			switch {
			case !ok:
				parts = append(parts, "damaged header")
			case len(encoded) == 0:
				parts = append(parts, emptyWord)
			case !wire.Peek(encoded, &m):
				parts = append(parts, fmt.Sprintf("%x", encoded))
			default:
				parts = append(parts, c.show(&m))
			}
		}
		return strings.Join(parts, "\n      "+slotMark+" ")
	case wire.Peek(b, &m):
		return c.show(&m)
	}
	return fmt.Sprintf("%d bytes %x", len(b), b)
}

func isSoundBundle(b []byte) bool { return wire.IsBundle(b) && wire.Bundle(b).Sound() }

// MessagesOf are the messages in a datagram: those of a bundle, or one.
func MessagesOf(b []byte) (list []wire.Message) {
	parts := [][]byte{b}
	if isSoundBundle(b) {
		parts = nil
		for i := range wire.Bundle(b).Count() {
			part, _ := wire.Bundle(b).Message(i)
			parts = append(parts, part)
		}
	}
	for _, part := range parts {
		var m wire.Message
		if wire.Peek(part, &m) {
			list = append(list, m)
		}
	}
	return list
}
