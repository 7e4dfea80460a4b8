package memory

import (
	"testing"

	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestProgress watches at the active gateway, and at another one.
func TestProgress(t *testing.T) {
	cluster := startChain(t)
	a := start(t, cluster, Options{})
	a.waitActive(t)
	b := start(t, cluster, Options{})
	etcdtest.Progress(t, a.address, b.address)
	etcdtest.Progress(t, b.address, a.address)
}
