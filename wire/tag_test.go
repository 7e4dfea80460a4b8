package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
)

var testEnds = Ends{From: netip.MustParseAddrPort("192.0.2.1:4411"), To: netip.MustParseAddrPort("192.0.2.2:4412")}

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
			tagged, err := keyring(sign).Append(bytes.Clone(message), testEnds)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := keyring(1).Open(bytes.Clone(tagged), testEnds)
			if !ok || !bytes.Equal(got, message) {
				t.Errorf("%x comes back as %x, %v", message, got, ok)
			}
			for i := range tagged {
				tagged[i] ^= 0x10
				if _, ok := keyring(1).Open(bytes.Clone(tagged), testEnds); ok {
					t.Errorf("byte %d of %x may be changed", i, tagged)
				}
				tagged[i] ^= 0x10
			}
		}
	}
}

// TestTagsCoverBothEnds checks T5: a message is taken only between the nodes that it was sent between. A client's end
// does not matter.
func TestTagsCoverBothEnds(t *testing.T) {
	for _, message := range corpus() {
		op := Op(message[offBaseOp])
		tagged, err := keyring(1).Append(bytes.Clone(message), testEnds)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"192.0.2.1:4412", "192.0.2.3:4411", "192.0.2.2:4412"} {
			end := netip.MustParseAddrPort(other)
			if end != testEnds.To {
				if _, ok := keyring(1).Open(bytes.Clone(tagged), Ends{testEnds.From, end}); ok != (op == OpReply) {
					t.Errorf("%v: a tag for %v is taken at %v: %v", op, testEnds.To, end, ok)
				}
			}
			if _, ok := keyring(1).Open(bytes.Clone(tagged), Ends{end, testEnds.To}); ok != (op < OpForward) {
				t.Errorf("%v: a tag from %v is taken from %v: %v", op, testEnds.From, end, ok)
			}
		}
	}
}

// TestTagVectors: testdata/tags.txt was computed by an implementation of SipHash that shares nothing with this one.
func TestTagVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/tags.txt")
	if err != nil {
		t.Fatal(err)
	}
	ring := keyring(2)
	cases := 0
	for line := range strings.Lines(string(file)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "//" {
			continue
		}
		cases++
		message, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		ends := Ends{netip.MustParseAddrPort(f[0]), netip.MustParseAddrPort(f[1])}
		tagged, err := ring.Append(bytes.Clone(message), ends)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(tagged[len(message):]); got != f[3] {
			t.Errorf("%v from %s to %s: trailer %s, want %s", Op(message[offBaseOp]), f[0], f[1], got, f[3])
		}
	}
	if cases == 0 {
		t.Error("no vectors")
	}
}

// TestKeysAreApart checks T2: a key for one kind of message is none for another.
func TestKeysAreApart(t *testing.T) {
	all := keyring(1)
	reader := &Keyring{Sign: 1, Keys: []Keys{{Generation: 1, Read: all.Keys[0].Read}}}
	for _, message := range corpus() {
		_, err := reader.Append(bytes.Clone(message), testEnds)
		op := Op(message[offBaseOp])
		if may := op == OpRead || op == OpReply; may != (err == nil) || !may && !errors.Is(err, ErrNoKey) {
			t.Errorf("a reader tags %v: %v", op, err)
		}
		forger := &Keyring{Sign: 1, Keys: []Keys{{Generation: 1, Read: secret(1), Write: secret(1), Chain: secret(1)}}}
		forged, err := forger.Append(bytes.Clone(message), testEnds)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := all.Open(bytes.Clone(forged), testEnds); ok != (op == OpRead || op == OpReply) {
			t.Errorf("%v with the key for reads is taken: %v", op, ok)
		}
	}
}

func TestUnknownGenerationsAreRefused(t *testing.T) {
	message := (&Message{Op: OpRead}).Append(nil)
	tagged, err := keyring(2).Append(message, testEnds)
	if err != nil {
		t.Fatal(err)
	}
	old := keyring(1)
	old.Keys = old.Keys[:1]
	if _, ok := old.Open(bytes.Clone(tagged), testEnds); ok {
		t.Error("a generation that is not known is taken")
	}
	if _, ok := old.Open(tagged[:BaseBytes], testEnds); ok {
		t.Error("a message without a trailer is taken")
	}
	var none *Keyring
	if got, ok := none.Open(message, testEnds); !ok || len(got) != BaseBytes {
		t.Error("without tags a message is refused")
	}
}
