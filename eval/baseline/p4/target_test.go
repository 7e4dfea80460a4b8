package p4

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/verify/enginetest"
)

// randomPackets is the number of random packets of each comparison with a state machine.
const randomPackets = 20_000

// open makes a target that the test closes.
func open[S any, T baseline.Target[S]](t *testing.T, newTarget func() (T, error)) T {
	t.Helper()
	enginetest.Need(t)
	target, err := newTarget()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
	return target
}

// runVectors runs the written cases of a protocol on its program. None is left out.
func runVectors[S any](t *testing.T, target baseline.Target[S], vectors func() ([]baseline.Case[S], error)) {
	t.Helper()
	cases, err := vectors()
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := baseline.Run(target, &c); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d cases", len(cases))
}

func TestNetChainVectors(t *testing.T) {
	runVectors[netchain.State](t, open[netchain.State](t, NewNetChainTarget), netchain.Vectors)
}

func TestNetCRAQPaperVectors(t *testing.T) {
	runVectors[netcraqpaper.State](t, open[netcraqpaper.State](t, NewNetCRAQPaperTarget), netcraqpaper.Vectors)
}

func TestNetChainRandomPackets(t *testing.T) {
	for name, wide := range map[string]bool{"16 bits": false, "32 bits": true} {
		t.Run(name, func(t *testing.T) {
			target := open[netchain.State](t, NewNetChainTarget)
			err := baseline.CompareMany[netchain.State](
				t.Context(), new(netchain.Node), target, Within(netchain.Random(wide)), 1, randomPackets, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNetCRAQPaperRandomPackets(t *testing.T) {
	target := open[netcraqpaper.State](t, NewNetCRAQPaperTarget)
	err := baseline.CompareMany[netcraqpaper.State](
		t.Context(), new(netcraqpaper.Node), target, netcraqpaper.Random(), 1, randomPackets, nil)
	if err != nil {
		t.Error(err)
	}
}

var node = netip.AddrFrom4([4]byte{10, 88, 0, 2})

// TestUnsupportedStates: a target declines configurations that the registers have no room for.
func TestUnsupportedStates(t *testing.T) {
	chains := open[netchain.State](t, NewNetChainTarget)
	for name, c := range map[string]netchain.Config{
		"values": {Slots: 1, ValueBytes: 65, Groups: 1},
		"groups": {Slots: 1, ValueBytes: 64, Groups: 3},
		"places": {Slots: chainSlots + 1, ValueBytes: 64, Groups: 1},
	} {
		c.Self = node
		s := netchain.State{Config: c, Cells: make([]netchain.Cell, c.Slots)}
		if err := chains.Load(s); !errors.Is(err, baseline.ErrUnsupported) {
			t.Errorf("NetChain, %s: %v", name, err)
		}
	}
	papers := open[netcraqpaper.State](t, NewNetCRAQPaperTarget)
	for name, c := range map[string]netcraqpaper.Config{
		"versions": {Keys: 1, Versions: paperVersions + 1},
		"objects":  {Keys: paperObjects + 1, Versions: 2},
	} {
		c.Self, c.Tail = node, node
		if err := papers.Load(netcraqpaper.Empty(c)); !errors.Is(err, baseline.ErrUnsupported) {
			t.Errorf("NetCRAQ as published, %s: %v", name, err)
		}
	}
}
