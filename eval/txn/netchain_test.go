package txn

import (
	"fmt"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestNetChainLocks expects that locks of a real chain are never held twice while its network loses
// no packets.
func TestNetChainLocks(t *testing.T) {
	roottest.Need(t)
	for _, o := range []struct {
		Options
		plane string
	}{
		{Options{Contention: 0.1, Clients: 4}, "soft"},
		{Options{Contention: 1, Clients: 3, AtOnce: 4}, "soft"},
		{Options{Contention: 1, Clients: 3, AtOnce: 4}, "xdp"},
	} {
		o.Duration, o.Seed, o.Items = 300*time.Millisecond, 9, 1000
		t.Run(fmt.Sprintf("%s, %d of %v", o.plane, o.Clients, o.Contention), func(t *testing.T) {
			system, err := Open(t.Context(), "netchain", OpenOptions{Items: o.AllItems(), Plane: o.plane})
			if err != nil {
				t.Fatal(err)
			}
			defer system.Close()
			runUntilCommit(t, system, o.Options)
		})
	}
}
