package harness

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestP4Vectors runs spec/vectors on the P4 program.
func TestP4Vectors(t *testing.T) {
	enginetest.Need(t)
	runP4Vectors(t)
}

// TestBMv2Vectors runs spec/vectors on the P4 program on BMv2's psa_switch.
func TestBMv2Vectors(t *testing.T) {
	enginetest.NeedBMv2(t)
	runP4Vectors(t)
}

func runP4Vectors(t *testing.T) {
	t.Helper()
	for name, relay := range map[string]bool{"clones": false, "relay": true} {
		t.Run(name, func(t *testing.T) { runP4VectorsOf(t, relay) })
	}
}

func runP4VectorsOf(t *testing.T, relay bool) {
	t.Helper()
	cases, err := conformance.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	cases, changed, err := conformance.OfSwitch(cases, relay)
	if err != nil {
		t.Fatal(err)
	}
	m := NewP4()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := conformance.Run(t.Context(), m, cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s\n  %s\n%s", f.Case, f.Packet, f.Why)
	}
	t.Logf("%d cases passed, %d skipped: %v; %d cases have the results of a switch", r.Passed, r.Skipped, r.SkippedWhy,
		changed)
}

// TestP4Random compares the P4 program with the specification on random packets.
func TestP4Random(t *testing.T) {
	enginetest.Need(t)
	m := NewP4()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	for seed := range uint64(p4Seeds) {
		found, err := conformance.Compare(t.Context(), m, conformance.RandomOptions{
			Packets: p4Packets, Seed: seed + 1, Within: P4Within,
		})
		if err != nil {
			t.Fatal(err)
		}
		if found != nil {
			var text strings.Builder
			if err := found.Write(&text); err != nil {
				t.Fatal(err)
			}
			t.Fatal(text.String())
		}
	}
}

// Parameters of TestP4Random: rounds of several seeds, each with its own options.
const (
	p4Seeds   = 4
	p4Packets = 6000
)
