package netcraqpaper_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

func TestFormats(t *testing.T) {
	formats, err := netcraqpaper.Formats()
	if err != nil || len(formats) == 0 {
		t.Fatal(err)
	}
	for _, f := range formats {
		if b := f.Message.Append(nil); !bytes.Equal(b, f.Bytes) {
			t.Errorf("%s: %x, want %x", f.Name, b, f.Bytes)
		}
		if m, err := netcraqpaper.Decode(f.Bytes); err != nil || m != f.Message {
			t.Errorf("%s: %+v, %v", f.Name, m, err)
		}
	}
}

func TestVectors(t *testing.T) {
	cases, err := netcraqpaper.Vectors()
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := baseline.Run[netcraqpaper.State](new(netcraqpaper.Node), &c); err != nil {
			t.Error(err)
		}
	}
}

// TestRandomPackets: random nodes are valid, random packets have every outcome, and a node does the
// same twice.
func TestRandomPackets(t *testing.T) {
	var seen [netcraqpaper.Outcomes]uint64
	var first, second netcraqpaper.Node
	for seed := range uint64(400) {
		if err := baseline.Compare(t.Context(), &first, &second, netcraqpaper.Random(), seed, 1, 30); err != nil {
			t.Fatal(err)
		}
		for o, count := range second.Counts() {
			seen[o] += count
		}
	}
	for o, count := range seen {
		if count == 0 && netcraqpaper.Outcome(o) != netcraqpaper.DirtyRead { // a tail commits its writes at once
			t.Errorf("no random packet is a %v", netcraqpaper.Outcome(o))
		}
	}
}

// TestDifferencesAreFound: a target that forgets one thing is found out, with a seed.
func TestDifferencesAreFound(t *testing.T) {
	var reference netcraqpaper.Node
	err := baseline.Compare(t.Context(), &reference, &forgetful{}, netcraqpaper.Random(), 1, 100, 30)
	if err == nil {
		t.Error("a node that never acknowledges to the group passes")
	}
}

// forgetful is a node whose multicast group loses its last member.
type forgetful struct{ netcraqpaper.Node }

func (f *forgetful) Step(p baseline.Packet) ([]baseline.Packet, error) {
	sent, err := f.Node.Step(p)
	if len(sent) > 1 {
		sent = sent[:len(sent)-1]
	}
	return sent, err
}

// TestRemoteTargets checks that packets that a target declines count for neither side and that the
// order of sends is not compared, but that missing packets are reported.
func TestRemoteTargets(t *testing.T) {
	var reference netcraqpaper.Node
	if err := baseline.Compare(t.Context(), &reference, &remote{}, netcraqpaper.Random(), 1, 100, 30); err != nil {
		t.Error(err)
	}
	err := baseline.Compare(t.Context(), &reference, &remote{lose: true}, netcraqpaper.Random(), 1, 100, 30)
	var mismatch *baseline.Mismatch
	if !errors.As(err, &mismatch) || mismatch.Packet == "" || !strings.HasPrefix(err.Error(), "seed ") {
		t.Errorf("%v", err)
	}
}

// remote is a node that declines every third packet and multicasts backwards, perhaps not to all.
type remote struct {
	netcraqpaper.Node
	packets int
	lose    bool
}

func (r *remote) Expect(baseline.Packet, []baseline.Packet) error {
	if r.packets++; r.packets%3 == 0 {
		return baseline.ErrUnsupported
	}
	return nil
}

func (r *remote) Step(p baseline.Packet) ([]baseline.Packet, error) {
	sent, err := r.Node.Step(p)
	slices.Reverse(sent)
	if r.lose && len(sent) > 1 {
		sent = sent[1:]
	}
	return sent, err
}

// FuzzReceive checks that messages that a node accepts are encoded again byte for byte, and that
// its registers stay within bounds.
func FuzzReceive(f *testing.F) {
	formats, err := netcraqpaper.Formats()
	if err != nil {
		f.Fatal(err)
	}
	for _, one := range formats {
		f.Add(one.Bytes)
	}
	cases, err := netcraqpaper.Vectors()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := netcraqpaper.Decode(b); err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x is read as %+v, which is %x", b, m, m.Append(nil))
		}
		for _, c := range cases {
			var n netcraqpaper.Node
			if err := n.Load(c.State); err != nil {
				t.Fatal(err)
			}
			in := c.Steps[0].In
			in.Payload = b
			n.Receive(in, nil)
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
