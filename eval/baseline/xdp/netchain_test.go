package xdp

import (
	"flag"
	"maps"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/eval/baseline"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

var (
	randomPackets = flag.Int("packets", 100_000, "random packets that each comparison with a machine takes")
	randomSeed    = flag.Uint64("seed", 1, "first seed of the comparisons")
)

func TestNetChainVectors(t *testing.T) {
	runVectors(t, open[netchain.State](t, NewNetChainTarget), netchain.Vectors)
}

func TestNetChainRandomPackets(t *testing.T) {
	for name, wide := range map[string]bool{"16 bits": false, "32 bits": true} {
		t.Run(name, func(t *testing.T) {
			target := open[netchain.State](t, NewNetChainTarget)
			t.Logf("seeds from %d", *randomSeed)
			err := baseline.CompareMany[netchain.State](
				t.Context(), new(netchain.Node), target, netchain.Random(wide), *randomSeed, *randomPackets, nil)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNetChainInsert reads the installed entries back.
func TestNetChainInsert(t *testing.T) {
	roottest.Need(t)
	c := netchain.Config{Self: netip.AddrFrom4([4]byte{10, 88, 0, 1}), Slots: 3, ValueBytes: 20, Groups: 1}
	n, err := loadNetChain(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	value := func(k netchain.Key) []byte { return k[:5] }
	if err := n.Insert([]netchain.Key{{1}, {2}}, 7, value); err != nil {
		t.Fatal(err)
	}
	if err := n.Insert([]netchain.Key{{3}, {4}}, 7, value); err == nil {
		t.Error("four keys found three places")
	}
	index := make(map[netchain.Key]uint32)
	var key netchain.Key
	var slot uint32
	entries := n.collection.Maps["nc_index"].Iterate()
	for entries.Next(&key, &slot) {
		index[key] = slot
	}
	if !maps.Equal(index, map[netchain.Key]uint32{{1}: 0, {2}: 1}) {
		t.Errorf("places: %v", index)
	}
}
