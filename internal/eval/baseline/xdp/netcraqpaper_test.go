package xdp

import (
	"testing"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/netcraqpaper"
)

func TestVectors(t *testing.T) {
	runVectors(t, open[netcraqpaper.State](t, NewNetCRAQPaperTarget), netcraqpaper.Vectors)
}

func TestNetCRAQPaperRandomPackets(t *testing.T) {
	target := open[netcraqpaper.State](t, NewNetCRAQPaperTarget)
	t.Logf("seeds from %d", *randomSeed)
	if err := baseline.CompareMany[netcraqpaper.State](t.Context(), new(netcraqpaper.Node), target, netcraqpaper.Random(), *randomSeed, *randomPackets, nil); err != nil {
		t.Fatal(err)
	}
}
