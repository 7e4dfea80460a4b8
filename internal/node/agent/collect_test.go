package agent

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// TestCollectingWaitsForUrgentCopies: a node looks for tombstones when no urgent copy is under way.
func TestCollectingWaitsForUrgentCopies(t *testing.T) {
	plane := listen(t)
	id := NewIdentity()
	id.Shards, id.CellBytes = testOptions.Shards, testOptions.CellBytes
	m, err := newMembership(&Options{Plane: plane, Join: &Join{Identity: id}}, quiet, func() string { return "" }, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newCollector(m)
	look := func(want bool) {
		t.Helper()
		if err := c.lookIfDue(); err != nil {
			t.Fatal(err)
		}
		if c.looked.IsZero() == want {
			t.Errorf("it looked: %v, want %v", !want, want)
		}
	}
	m.hurry(false)
	end := m.hurry(true)
	look(false)
	end()
	look(true)
}

// countedPlane counts calls.
type countedPlane struct {
	dataplane.Plane
	configs, usages atomic.Int64
}

func (p *countedPlane) Config(shard uint16) (chain.ShardConfig, error) {
	p.configs.Add(1)
	return p.Plane.Config(shard)
}

func (p *countedPlane) Usage() (dataplane.Usage, error) {
	p.usages.Add(1)
	return p.Plane.Usage()
}

// TestIdleCollectorRests: while nothing changes, the collector looks at the plane five times a second, and after an
// order at once.
func TestIdleCollectorRests(t *testing.T) {
	plane := &countedPlane{Plane: listen(t)}
	id := NewIdentity()
	id.Shards, id.CellBytes = testOptions.Shards, testOptions.CellBytes
	synctest.Test(t, func(t *testing.T) {
		m, err := newMembership(&Options{Plane: plane, Join: &Join{Identity: id}}, quiet, func() string { return "" }, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		go m.collect(ctx)
		<-time.After(10 * time.Second) // of the test's clock
		synctest.Wait()
		before := plane.usages.Load()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if looks := plane.usages.Load() - before; looks > 60 {
			t.Errorf("%d looks in 10 s", looks)
		}
		before = plane.configs.Load()
		poke(m.applied)
		synctest.Wait()
		if plane.configs.Load() == before {
			t.Error("no look after an order")
		}
		end()
		synctest.Wait()
	})
}
