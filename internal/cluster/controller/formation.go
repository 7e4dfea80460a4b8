package controller

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Defaults are the default settings of a cluster.
func Defaults() reconfig.Settings {
	return reconfig.Settings{
		Shards: 256, Replicas: 3, Spread: "zone", CellBytes: wire.MaxValueBytes,
		Heartbeat: 10 * time.Millisecond, Lease: 60 * time.Millisecond, Suspect: 40 * time.Millisecond,
		LeaseMax: reconfig.DefaultLeaseMax, SuspectMax: reconfig.DefaultSuspectMax, Sure: reconfig.DefaultSure,
	}
}

// defaults replaces zero settings by their defaults.
func (c *Controller) defaults() store.Formation {
	s := Defaults()
	s.Cluster = fmt.Sprintf("%016x", rand.Uint64())
	return store.Formation{Settings: s, Controllers: reconfig.ControllerSet{Members: []reconfig.Controller{c.self()}},
		FormWith: cmp.Or(c.options.Form.Settings.Replicas, s.Replicas)}
}

// Check returns the first error in the settings of a new cluster. It ignores zero settings.
func Check(f *store.Formation) error {
	s, d := f.Settings, Defaults()
	options := chain.Options{Shards: cmp.Or(s.Shards, d.Shards), CellBytes: cmp.Or(s.CellBytes, d.CellBytes), MaxObjects: 1, MaxSessions: 1}
	if err := options.Validate(); err != nil {
		return err
	}
	times := reconfig.Times{
		Heartbeat: cmp.Or(s.Heartbeat, d.Heartbeat), Lease: cmp.Or(s.Lease, d.Lease), Suspect: cmp.Or(s.Suspect, d.Suspect),
	}
	times.LeaseMax, times.SuspectMax = cmp.Or(s.LeaseMax, max(d.LeaseMax, times.Lease)), cmp.Or(s.SuspectMax, max(d.SuspectMax, times.Suspect))
	times.Sure = cmp.Or(s.Sure, max(d.Sure, times.Suspect))
	if err := times.Check(); err != nil {
		return err
	}
	switch {
	case s.Replicas < 0 || s.Replicas > wire.MaxChain:
		return fmt.Errorf("--replicas %d: a chain has 1 to %d", s.Replicas, wire.MaxChain)
	case len(f.Controllers.Members) > wire.MaxGranters:
		return fmt.Errorf("%d controllers: a cluster has at most %d, because nodes take leases from no more; 5 survive two failures",
			len(f.Controllers.Members), wire.MaxGranters)
	case f.FormWith < 0:
		return fmt.Errorf("--form-with %d: a number of nodes is wanted", f.FormWith)
	}
	return nil
}
