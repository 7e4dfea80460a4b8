package harness

import (
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// TestVectors runs spec/vectors on the bytecode.
func TestVectors(t *testing.T) {
	runVectors(t, func(m *XDP) conformance.Target { return m })
}

// TestTaggedVectors runs spec/vectors on a node with tags, in each phase (T6). Every case must pass behind a valid tag.
func TestTaggedVectors(t *testing.T) {
	for _, phase := range taggedPhases {
		t.Run(phase.String(), func(t *testing.T) {
			runVectors(t, func(m *XDP) conformance.Target { return &conformance.Tagged{Keyed: m, Phase: phase} })
		})
	}
}

var taggedPhases = []wire.Tags{wire.TagsAccepted, wire.TagsSent, wire.TagsRequired}

func runVectors(t *testing.T, target func(*XDP) conformance.Target) {
	roottest.Need(t)
	cases, err := conformance.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := conformance.Run(t.Context(), target(m), cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s\n  %s\n%s", f.Case, f.Packet, f.Why)
	}
	t.Logf("%d cases passed, %d skipped: %v", r.Passed, r.Skipped, r.SkippedWhy)
}
