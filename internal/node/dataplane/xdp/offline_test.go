package xdp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

func at(last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 77, 0, last}), wire.Port)
}

// testNow is where the clocks of tests begin.
const testNow = uint64(24 * time.Hour)

// serveFirst configures the first shard of a node, with a lease that does not end.
func serveFirst(t *testing.T, m *Offline, config chain.ShardConfig) {
	t.Helper()
	if err := m.ConfigureAll(map[uint16]chain.ShardConfig{0: config}); err != nil {
		t.Fatal(err)
	}
	if err := m.SetClock(testNow); err != nil {
		t.Fatal(err)
	}
	m.Grant(0, chain.Forever)
}
