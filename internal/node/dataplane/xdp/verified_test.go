package xdp

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// The verifier takes every program of the compiled object, and says what it processed.
func TestProcessed(t *testing.T) {
	roottest.Need(t)
	object, err := os.ReadFile("netcraq.o")
	if err != nil {
		t.Fatal(err)
	}
	sizes, err := ProgramSizes(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	processed, err := Processed(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range sizes {
		if processed[name] < 1 || size < 1 {
			t.Errorf("%s: %d instructions, %d processed", name, size, processed[name])
		}
	}
	if most := processed["nq_ingress"]; most < sizes["nq_ingress"] {
		t.Errorf("nq_ingress: %d of %d instructions were processed", most, sizes["nq_ingress"])
	}
	text, err := json.Marshal(processed)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text) // which command kernels takes from other kernels
}
