package bench

import "testing"

func TestDistance(t *testing.T) {
	needRoot(t)
	r, err := Distance(t.Context(), DistanceOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 10, ValueBytes: 16}, Nodes: 2, Seconds: 0.2, Rounds: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[0].Distance != 0 || r.Rows[1].Distance != 1 || r.Rows[1].ReadsPerS == 0 || r.Wrong != 0 {
		t.Errorf("%+v", r)
	}
}

// TestWrite holds the chain to W7: the answer after n+1 hops, and request, n-1 UPDATEs, n-1 ACKs and answer on the links.
func TestWrite(t *testing.T) {
	needRoot(t)
	const nodes = 3
	r, err := Write(t.Context(), WriteOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 10, ValueBytes: 16}, Nodes: nodes, Seconds: 0.2, Rounds: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.PacketsPerWrite != 2*nodes || r.Hops != nodes+1 || r.WritesPerS == 0 || r.Wrong != 0 {
		t.Errorf("%+v", r)
	}
}
