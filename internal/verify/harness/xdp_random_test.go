package harness

import (
	flags "flag"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
)

var (
	randomPackets = flags.Int("packets", 50_000, "random packets that TestRandomPackets compares")
	randomSeed    = flags.Uint64("seed", 1, "seed of TestRandomPackets")
)

// TestRandomPackets compares the bytecode with internal/node/chain on random packets.
func TestRandomPackets(t *testing.T) {
	runRandom(t, func(m *XDP) conformance.Target { return m })
}

// TestTaggedRandomPackets is TestRandomPackets with tags, in each phase.
func TestTaggedRandomPackets(t *testing.T) {
	for _, phase := range taggedPhases {
		t.Run(phase.String(), func(t *testing.T) {
			runRandom(t, func(m *XDP) conformance.Target { return &conformance.Tagged{Keyed: m, Phase: phase} })
		})
	}
}

func runRandom(t *testing.T, target func(*XDP) conformance.Target) {
	roottest.Need(t)
	m, err := NewXDP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Logf("seed %d", *randomSeed)
	difference, err := conformance.Compare(t.Context(), target(m),
		conformance.RandomOptions{Packets: *randomPackets, Seed: *randomSeed})
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
