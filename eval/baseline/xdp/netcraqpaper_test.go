package xdp

import (
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

func TestVectors(t *testing.T) {
	runVectors(t, open[netcraqpaper.State](t, NewNetCRAQPaperTarget), netcraqpaper.Vectors)
}

func TestNetCRAQPaperRandomPackets(t *testing.T) {
	target := open[netcraqpaper.State](t, NewNetCRAQPaperTarget)
	t.Logf("seeds from %d", *randomSeed)
	err := baseline.CompareMany[netcraqpaper.State](
		t.Context(), new(netcraqpaper.Node), target, netcraqpaper.Random(), *randomSeed, *randomPackets, nil)
	if err != nil {
		t.Fatal(err)
	}
}
