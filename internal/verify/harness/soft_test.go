package harness

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/verify/conformance"
)

// TestSoftVectors runs spec/vectors through sockets. Only cases about the layers below a message
// are skipped.
func TestSoftVectors(t *testing.T) {
	cases, err := conformance.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewSoft()
	if err != nil {
		t.Fatal(err)
	}
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
	const belowMessages, fromItself = 13, 2
	if r.Skipped > belowMessages+fromItself {
		t.Errorf("%d cases skipped: %q", r.Skipped, r.SkippedWhy)
	}
	t.Logf("%d passed, %d skipped", r.Passed, r.Skipped)
}

// TestSoftRandomPackets compares a node on sockets with internal/node/chain.
func TestSoftRandomPackets(t *testing.T) {
	m, err := NewSoft()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := conformance.RandomOptions{Packets: 10_000, Seed: 1}
	t.Logf("seed %d", o.Seed)
	difference, err := conformance.Compare(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	if difference != nil {
		var report strings.Builder
		if err := difference.Write(&report); err != nil {
			t.Fatal(err)
		}
		t.Fatal(report.String())
	}
}
