package xdp

import (
	"testing"

	"github.com/netcraq/netcraq/internal/eval/baseline"
	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

func TestPublishedVectors(t *testing.T) {
	runVectors(t, open[published.State](t, NewPublishedTarget), published.Vectors)
}

func TestPublishedRandomPackets(t *testing.T) {
	target := open[published.State](t, NewPublishedTarget)
	t.Logf("seeds from %d", *randomSeed)
	if err := baseline.CompareMany[published.State](t.Context(), new(published.Node), target, published.Random(), *randomSeed, *randomPackets, nil); err != nil {
		t.Fatal(err)
	}
}
