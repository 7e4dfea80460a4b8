package wire

import (
	"bytes"
	"testing"
)

// TestTagPhases (T6): parties that are at most one phase apart understand each other, and from off on nothing with a tag, and
// from required on nothing without one, is taken.
func TestTagPhases(t *testing.T) {
	message := (&Message{Op: OpUpdate, Epoch: 1, Session: 1, Seq: 1, Version: 1, ClientOp: OpPut, Value: []byte("v"),
		Client: testEnds.From}).Append(nil)
	ring := keyring(1)
	for from := TagsOff; from.Valid(); from++ {
		for to := TagsOff; to.Valid(); to++ {
			datagram, err := from.Sending(ring).Append(bytes.Clone(message), testEnds)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := to.Open(ring, datagram, testEnds)
			var m Message
			taken := ok && Decode(got, &m) == Accepted
			want := to == TagsAccepted || to == TagsSent || from.Sends() == (to == TagsRequired)
			if near := from == to || from == to.Toward(true) || from == to.Toward(false); near && !want {
				t.Errorf("%v and %v are near", from, to)
			}
			if taken != want || taken && !bytes.Equal(got, message) {
				t.Errorf("sent in phase %v, taken in phase %v: %v, want %v", from, to, taken, want)
			}
		}
	}
}

// A client that is a phase behind, or has no keys yet, takes what it would take without a tag.
func TestAnswersOfLaterPhases(t *testing.T) {
	reply := (&Message{Op: OpReply, Epoch: 1, Version: 1}).Append(nil)
	for _, c := range []struct {
		client, node Tags
		ring         *Keyring
		want         bool
	}{
		{TagsOff, TagsSent, nil, true}, {TagsAccepted, TagsSent, nil, true}, {TagsAccepted, TagsRequired, keyring(1), true},
		{TagsRequired, TagsRequired, nil, false}, {TagsRequired, TagsAccepted, keyring(1), false},
	} {
		datagram, err := c.node.Sending(keyring(1)).Append(bytes.Clone(reply), testEnds)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := c.client.OpenAnswer(c.ring, datagram, testEnds); ok != c.want || ok && !bytes.Equal(got, reply) {
			t.Errorf("%+v: %v", c, ok)
		}
	}
}
