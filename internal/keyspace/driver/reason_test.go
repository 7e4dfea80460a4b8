package driver

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// A recovery says what it waits for.
func TestRecoveriesSayWhatTheyAwait(t *testing.T) {
	set := []core.Disk{{Name: 1, Identity: 11}, {Name: 2, Identity: 12}, {Name: 3, Identity: 13}}
	next := []core.Disk{set[0], {Name: 2, Identity: 99}, set[2]}
	d := &Driver{}
	for i, member := range []string{"a", "b", "c"} {
		d.state.Gateways = append(d.state.Gateways, Gateway{Disk: next[i], Member: member})
	}
	record := core.Record{Active: core.Era{Number: 3, Set: set, Base: core.Position{Era: 2, Index: 8}}}
	m := core.Recover(0, record, next)
	claimed := record
	claimed.Recovering, claimed.Next = 4, next
	r := &repair{d: d, core: m, record: claimed}
	for _, c := range []struct {
		event func()
		want  string
	}{
		{func() {}, "the controllers do not store"},
		{
			func() { m.Wrote(true) },
			"2 more of the disks of era 3 must answer: start the gateways of a, b (it has another disk now), c",
		},
		{
			func() { m.Promised(set[2], core.Answer{Last: core.Position{Era: 3, Index: 9}}) },
			"1 more of the disks of era 3 must answer: start the gateways of a, b (it has another disk now)",
		},
		{func() { m.Promised(set[0], core.Answer{Last: core.Position{Era: 3, Index: 8}}) }, "the disk of c does not come"},
		{func() { m.Taken(core.Position{Era: 3, Index: 9}) }, "log of era 3: see netcraq status; if all nodes of a shard"},
		{
			func() { m.Found(10, core.Cell{Lost: true}) },
			"2 more disks must store the state with which era 4 begins: see the logs of the gateways of a, b, c",
		},
		{func() { m.Installed(next[1], core.Answer{Last: core.Position{Era: 4, Index: 9}}) }, "1 more disks must store"},
		{func() { m.Installed(next[0], core.Answer{Last: core.Position{Era: 4, Index: 9}}) }, "log of era 4"},
		{func() { m.LogMade(true) }, "the controllers do not store"},
		{func() { m.Wrote(false) }, "another gateway"},
	} {
		if c.event(); !strings.Contains(r.awaits(), c.want) {
			t.Errorf("%q, want %q", r.awaits(), c.want)
		}
	}
}
