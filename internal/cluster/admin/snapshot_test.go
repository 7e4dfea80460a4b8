package admin

import (
	"slices"
	"testing"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// The disk of a gateway that got another one does not count before the next era.
func TestEmptiedDisksDoNotCount(t *testing.T) {
	disk := func(name, identity uint64) *controllerv1.KeyspaceDisk {
		return &controllerv1.KeyspaceDisk{Name: name, Identity: identity}
	}
	k := keyspaceOf(&controllerv1.Keyspace{
		Active: &controllerv1.KeyspaceEra{
			Number: 3, Disks: []*controllerv1.KeyspaceDisk{disk(1, 11), disk(2, 12), disk(3, 13)},
		},
		Gateways: []*controllerv1.KeyspaceGateway{
			{Member: "a", Disk: disk(1, 11)}, {Member: "b", Disk: disk(2, 99)}, {Member: "c", Disk: disk(3, 13)},
		},
	})
	if want := []string{"a", "c"}; !slices.Equal(k.Disks, want) || k.CountingDisks() != len(want) {
		t.Errorf("the disks of %v count, want %v", k.Disks, want)
	}
}
