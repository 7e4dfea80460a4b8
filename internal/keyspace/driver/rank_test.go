package driver

import (
	"testing"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

// A gateway that begins a keyspace with contents is not behind those whose disks count: clients wait for it.
func TestContentsComeFirst(t *testing.T) {
	self := core.Disk{Name: 1, Identity: 1}
	d := &Driver{disk: self, state: State{Gateways: []Gateway{{Disk: self}}}}
	if rank := d.rank(core.Record{}); rank == 0 {
		t.Error("a gateway whose disk does not count is first")
	}
	d.first = new(journal.Arrived)
	if rank := d.rank(core.Record{}); rank != 0 {
		t.Errorf("a gateway with contents has rank %d", rank)
	}
}

// Two gateways that begin recoveries after each other leave one of them the time that a slow chain takes.
func TestRecoveriesGetTheirTime(t *testing.T) {
	const takes = 50 // times RecoverAfter
	r, rank := core.Record{Active: core.Era{Number: 5}, Recovering: 6}, 1
	for ; patience(&r, rank) < takes; rank = 1 - rank {
		if r.Recovering++; r.Recovering > 20 {
			t.Fatal("each recovery is overtaken by the next one")
		}
	}
}
