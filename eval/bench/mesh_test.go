package bench

import (
	"math"
	"testing"
)

func TestDistance(t *testing.T) {
	needRoot(t)
	r, err := Distance(t.Context(), DistanceOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 10, ValueBytes: 16}, Nodes: 2,
		Windows: Windows{Seconds: 0.2, Rounds: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Distance != 0 || r.Rows[1].Distance != 1 || r.Rows[1].ReadsPerS == 0 || r.Wrong != 0 {
		t.Errorf("%+v", r)
	}
}

// TestWrite checks W7: an answer after n+1 hops; one request, n-1 UPDATEs, n-1 ACKs and one answer
// on the links. Bundles, whose ACKs go up the chain with the answers, take the same number of
// frames (B2, B5).
func TestWrite(t *testing.T) {
	needRoot(t)
	const nodes = 3
	for _, c := range []struct {
		slots, hops int
		packets     float64 // per write
	}{{0, nodes + 1, 2 * nodes}, {5, 2 * nodes, 2. * nodes / 5}} {
		r, err := Write(t.Context(), WriteOptions{
			NodeOptions: NodeOptions{Plane: "soft", Keys: 10, ValueBytes: 16}, Nodes: nodes,
			Windows: Windows{Seconds: 0.2, Rounds: 1}, Slots: c.slots,
		})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(r.PacketsPerWrite-c.packets) > 1e-9 || r.Hops != c.hops || r.WritesPerS == 0 || r.Wrong != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := NodeOptions{Plane: "soft", Keys: 1, ValueBytes: 16}
	windows := Windows{Seconds: 1, Rounds: 1}
	bad := map[string]error{
		"no keys":       validate(&NodeOptions{ValueBytes: 16}, &windows),
		"long value":    validate(&NodeOptions{Keys: 1, ValueBytes: 1353}, &windows),
		"no rounds":     validate(&good, &Windows{Seconds: 1}),
		"short windows": validate(&good, &Windows{Seconds: 1, Rounds: 1000}),
	}
	for name, err := range bad {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := validate(&good, &windows); err != nil {
		t.Error(err)
	}
	if _, _, err := newLinkedHosts(9); err == nil {
		t.Error("a chain of 9 is taken")
	}
}

func TestMix(t *testing.T) {
	needRoot(t)
	r, err := Mix(t.Context(), MixOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 10, ValueBytes: 16}, Windows: Windows{Seconds: 0.2, Rounds: 1},
		Nodes: 2, Target: 1, WriteShare: 0.5,
	})
	if err != nil {
		t.Fatal(err)
	}
	// A read at the tail takes 2 packets; a write 5: to the tail, to the head, back down, the answer and the ACK.
	if r.PacketsPerRequest < 2 || r.PacketsPerRequest > 5 || r.HopsMax != 4 || r.Wrong != 0 || r.RequestsPerS == 0 {
		t.Errorf("%+v", r)
	}
}
