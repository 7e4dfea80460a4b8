package xdp

import (
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// TestUsageIsCheap: agents ask for the usage many times a second, so it allocates nothing, as a system call about a
// table would.
func TestUsageIsCheap(t *testing.T) {
	o := chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: 4}
	l := newLone(t, o)
	usage, err := mapArray[uint64](l.objects.Usage, countedTables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unmapArray(usage) })
	taken := tables{objects: l.objects, usage: usage}
	var got dataplane.Usage
	if n := testing.AllocsPerRun(100, func() { got, err = taken.Usage() }); err != nil || n != 0 || got.Objects != 0 {
		t.Errorf("usage %+v, %v: %v allocations", got, err, n)
	}
	if memory, err := taken.Memory(); err != nil || memory == 0 {
		t.Errorf("memory %d, %v", memory, err)
	}
}
