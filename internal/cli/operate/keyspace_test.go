package operate

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/record"
)

// TestDisksAreGivenUp: an operator gives up a majority of a keyspace's disks, and nothing else.
func TestDisksAreGivenUp(t *testing.T) {
	m := clitest.StartManaged(t, "127.3.8.40", "--shards", "4", "--replicas", "1")
	ctx := t.Context()
	r, err := record.Open(ctx, record.Options{
		Name: "one", Controllers: func() []string { return []string{m.Controller} },
		Dial: grpc.WithTransportCredentials(insecure.NewCredentials()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	change := func(next func(*driver.State)) {
		t.Helper()
		s, version, err := r.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		next(&s)
		if _, swapped, err := r.Swap(ctx, version, s); err != nil || !swapped {
			t.Fatal(swapped, err)
		}
	}
	var disks []core.Disk
	change(func(s *driver.State) {
		for i, member := range []string{"a", "b", "c"} {
			d := core.Disk{Name: uint64(i + 1), Identity: uint64(i + 11)}
			disks = append(disks, d)
			s.Gateways = append(s.Gateways, driver.Gateway{Disk: d, Member: member, Address: "127.0.0.1:2379"})
		}
		s.Recovering, s.Next = 1, disks
	})
	change(func(s *driver.State) {
		s.Record = core.Record{Active: core.Era{Number: 1, Set: disks}}
	})
	change(func(s *driver.State) { s.Gateways[1].Disk.Identity = 99 }) // its disk was emptied
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"give-up-disks two --yes", cli.ExitError, "no keyspace"},
		{"give-up-disks one --yes", cli.ExitError, "2 of 3 disks are left, and 2 suffice"},
		{"give-up-disks one --lost x --yes", cli.ExitUsage, "does not count"},
		{"give-up-disks one --lost a,c --yes", cli.ExitError, "no disk of era 1 is left"},
		{"give-up-disks one --lost c", cli.ExitUsage, "--yes"},
		{"give-up-disks one --lost c --yes", 0, ""},
	} {
		if _, complained, status := m.Ask(strings.Fields(c.args)...); status != c.status ||
			!strings.Contains(complained, c.says) {
			t.Errorf("netcraq %s: status %d, not %d with %q: %s", c.args, status, c.status, c.says, complained)
		}
	}
	s, _, err := r.Read(ctx)
	if err != nil || len(s.Lost) != 2 || s.Lost[0] != disks[1] || s.Lost[1] != disks[2] {
		t.Errorf("given up: %+v, %v", s.Lost, err)
	}
	shown := clitest.Object[admin.Snapshot](m, "status").Keyspaces
	if len(shown) != 1 || shown[0].Name != "one" || shown[0].Era != 1 || len(shown[0].Gateways) != 2 ||
		len(shown[0].Addresses) != 2 || shown[0].Addresses[0] != "127.0.0.1:2379" {
		t.Errorf("the status shows %+v", shown)
	}
}
