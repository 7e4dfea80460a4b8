package netchain_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

func TestFormats(t *testing.T) {
	formats, err := netchain.Formats()
	if err != nil || len(formats) == 0 {
		t.Fatal(err)
	}
	for _, f := range formats {
		if b := f.Message.Append(nil); !bytes.Equal(b, f.Bytes) {
			t.Errorf("%s: %x, want %x", f.Name, b, f.Bytes)
		}
		m, err := netchain.Decode(f.Bytes)
		if diff := cmp.Diff(f.Message, m, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Addr{})); err != nil ||
			diff != "" {
			t.Errorf("%s: %v\n%s", f.Name, err, diff)
		}
	}
}

func TestVectors(t *testing.T) {
	cases, err := netchain.Vectors()
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := baseline.Run[netchain.State](new(netchain.Node), &c); err != nil {
			t.Error(err)
		}
	}
}

// TestRandomPackets: random nodes are valid, random packets have every outcome, and a node does the
// same twice.
func TestRandomPackets(t *testing.T) {
	for _, wide := range []bool{false, true} {
		var first, second netchain.Node
		if err := baseline.Compare(t.Context(), &first, &second, netchain.Random(wide), 1, 300, 30); err != nil {
			t.Fatal(err)
		}
		var seen [netchain.Outcomes]uint64
		var n netchain.Node
		for seed := range uint64(300) {
			if err := baseline.Compare(t.Context(), &first, &n, netchain.Random(wide), seed, 1, 30); err != nil {
				t.Fatal(err)
			}
			for o, count := range n.Counts() {
				seen[o] += count
			}
		}
		for o, count := range seen {
			if count == 0 {
				t.Errorf("wide %v: no random packet is %v", wide, netchain.Outcome(o))
			}
		}
	}
}

// FuzzReceive checks that messages that a node accepts or sends are encoded again byte for byte.
func FuzzReceive(f *testing.F) {
	formats, err := netchain.Formats()
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range formats {
		f.Add(one.Bytes)
	}
	cases, err := netchain.Vectors()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := netchain.Decode(b); err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x is read as %+v, which is %x", b, m, m.Append(nil))
		}
		for _, c := range cases {
			var n netchain.Node
			if err := n.Load(c.State); err != nil {
				t.Fatal(err)
			}
			in := c.Steps[0].In
			in.Payload = b
			for _, p := range n.Receive(in, nil) {
				if _, err := netchain.Decode(p.Payload); err != nil && !bytes.Equal(p.Payload, b) {
					t.Errorf("sends %x, which is no message", p.Payload)
				}
			}
			after, err := n.State()
			if err == nil {
				err = after.Validate()
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
}
