package bench

import (
	"os"
	"testing"
)

// TestProtections: every node handles every message, and each cost is one of its own.
func TestProtections(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to load BPF programs")
	}
	r, err := Protections(t.Context(), ProtectionOptions{Rounds: 1, Messages: 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kinds) != len(measured) {
		t.Fatalf("%d kinds of messages", len(r.Kinds))
	}
	for _, k := range r.Kinds {
		if len(k.With) != len(protections) || k.With[0].Ratio != 1 {
			t.Errorf("%s: %+v", k.Kind, k.With)
		}
		for _, w := range k.With {
			if w.Ns <= 0 || w.PerS <= 0 {
				t.Errorf("%s with %s: %+v", k.Kind, w.Protections, w)
			}
		}
	}
	if _, err := Protections(t.Context(), ProtectionOptions{}); err == nil {
		t.Error("no rounds are measured")
	}
}
