package harness

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4/p4runtime"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// TestP4Vectors runs spec/vectors on the P4 program.
func TestP4Vectors(t *testing.T) {
	enginetest.Need(t)
	for name, relay := range map[string]bool{"clones": false, "relay": true} {
		t.Run(name, func(t *testing.T) { runP4VectorsOf(t, NewP4(), relay) })
	}
}

// TestV1ModelVectors runs spec/vectors on the P4 program on BMv2's simple_switch_grpc, through P4Runtime only.
func TestV1ModelVectors(t *testing.T) {
	m := onSimpleSwitch(t)
	for name, relay := range map[string]bool{"clones": false, "relay": true} {
		t.Run(name, func(t *testing.T) { runP4VectorsOf(t, m, relay) })
	}
}

// TestV1ModelRandom compares the P4 program on BMv2's simple_switch_grpc with the specification on random packets.
func TestV1ModelRandom(t *testing.T) { compareRandom(t, onSimpleSwitch(t), 1, v1modelPackets) }

const v1modelPackets = 300

// onSimpleSwitch is a target on a switch that runs until the test ends.
func onSimpleSwitch(t *testing.T) *P4 {
	t.Helper()
	const device = 1
	address := enginetest.SimpleSwitch(t, func(address string) []string {
		return p4runtime.SimpleSwitchCommand(device, address)
	})
	to := p4runtime.NodeTarget(address, device, (*security.Identity)(nil).DialOption())
	to.Wait = true
	return NewP4On(func() (p4.Switch, error) { return p4runtime.Dial(t.Context(), to) })
}

func runP4VectorsOf(t *testing.T, m *P4, relay bool) {
	t.Helper()
	cases, err := conformance.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	cases, changed, err := conformance.OfSwitch(cases, relay)
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
	t.Logf("%d cases passed, %d skipped: %v; %d cases have the results of a switch", r.Passed, r.Skipped, r.SkippedWhy,
		changed)
}

// TestP4Random compares the P4 program with the specification on random packets.
func TestP4Random(t *testing.T) {
	enginetest.Need(t)
	compareRandom(t, NewP4(), p4Seeds, p4Packets)
}

func compareRandom(t *testing.T, m *P4, seeds uint64, packets int) {
	t.Helper()
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	for seed := range seeds {
		found, err := conformance.Compare(t.Context(), m, conformance.RandomOptions{
			Packets: packets, Seed: seed + 1, Within: P4Within,
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
