package wire

import (
	"bytes"
	"errors"
	"testing"
)

func secret(b byte) *Secret {
	s := Secret(bytes.Repeat([]byte{b}, len(Secret{})))
	return &s
}

func keyring(sign uint32) *Keyring {
	return &Keyring{Sign: sign, Keys: []Keys{
		{Generation: 1, Read: secret(1), Write: secret(2), Chain: secret(3)},
		{Generation: 2, Read: secret(4), Write: secret(5), Chain: secret(6)},
	}}
}

func TestTags(t *testing.T) {
	for _, message := range corpus() {
		for _, sign := range []uint32{1, 2} {
			tagged, err := keyring(sign).Append(bytes.Clone(message))
			if err != nil {
				t.Fatal(err)
			}
			got, ok := keyring(1).Open(tagged)
			if !ok || !bytes.Equal(got, message) {
				t.Errorf("%x comes back as %x, %v", message, got, ok)
			}
			for i := range tagged {
				tagged[i] ^= 0x10
				if _, ok := keyring(1).Open(tagged); ok {
					t.Errorf("byte %d of %x may be changed", i, tagged)
				}
				tagged[i] ^= 0x10
			}
		}
	}
}

// TestKeysAreApart checks T2: a key for one kind of message is none for another.
func TestKeysAreApart(t *testing.T) {
	all := keyring(1)
	reader := &Keyring{Sign: 1, Keys: []Keys{{Generation: 1, Read: all.Keys[0].Read}}}
	for _, message := range corpus() {
		_, err := reader.Append(bytes.Clone(message))
		op := Op(message[offBaseOp])
		if may := op == OpRead || op == OpReply; may != (err == nil) || !may && !errors.Is(err, ErrNoKey) {
			t.Errorf("a reader tags %v: %v", op, err)
		}
		forger := &Keyring{Sign: 1, Keys: []Keys{{Generation: 1, Read: secret(1), Write: secret(1), Chain: secret(1)}}}
		forged, err := forger.Append(bytes.Clone(message))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := all.Open(forged); ok != (op == OpRead || op == OpReply) {
			t.Errorf("%v with the key for reads is taken: %v", op, ok)
		}
	}
}

func TestUnknownGenerationsAreRefused(t *testing.T) {
	message := (&Message{Op: OpRead}).Append(nil)
	tagged, err := keyring(2).Append(message)
	if err != nil {
		t.Fatal(err)
	}
	old := keyring(1)
	old.Keys = old.Keys[:1]
	if _, ok := old.Open(tagged); ok {
		t.Error("a generation that is not known is taken")
	}
	if _, ok := old.Open(tagged[:BaseBytes]); ok {
		t.Error("a message without a trailer is taken")
	}
	var none *Keyring
	if got, ok := none.Open(message); !ok || len(got) != BaseBytes {
		t.Error("without tags a message is refused")
	}
}
