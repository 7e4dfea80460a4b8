package bench

import "testing"

func TestMemory(t *testing.T) {
	needRoot(t)
	r, err := Memory(t.Context(), MemoryOptions{
		NodeOptions: NodeOptions{Plane: "soft", Keys: 100, ValueBytes: 16}, Windows: Windows{Seconds: 0.2, Rounds: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Objects != 100 || r.MemoryBytes == 0 || r.Wrong != 0 {
		t.Errorf("%+v", r)
	}
}
