package reconfig

import (
	"math"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// SweptPlane is the part of a data plane that a [Sweeper] uses.
type SweptPlane interface {
	Config(shard uint16) (chain.ShardConfig, error)
	Collect() (map[uint16]dataplane.Tombstones, error)
	Dirty(limit int) ([]dataplane.KeyedObject, error)
	Object(key wire.Key) (chain.Object, bool, error)
}

// Sweeper is a node's part of G2 and G4: it has the plane collect tombstones, and finds out for the shards whose head
// the node is whether all below a floor is committed.
type Sweeper struct {
	shards int // of the cluster
	drains map[uint16]*drain
}

// drain is the search for objects of a shard with versions below a floor that may not be committed.
type drain struct {
	epoch uint32
	floor uint64
	left  []wire.Key // such objects, when they were last looked at
}

// NewSweeper returns the sweeper of a node.
func NewSweeper(shards int) *Sweeper {
	return &Sweeper{shards: shards, drains: make(map[uint16]*drain)}
}

// Sweep collects what may be collected and returns the node's report, which is empty for shards without tombstones.
func (s *Sweeper) Sweep(p SweptPlane) ([]Tombstones, error) {
	configs := make(map[uint16]chain.ShardConfig)
	for shard := range uint16(s.shards) {
		c, err := p.Config(shard)
		if err != nil {
			return nil, err
		}
		if c.State == chain.Active && !c.Learner {
			configs[shard] = c
		}
	}
	left, err := p.Collect() // after that, no write is ordered by an older configuration
	if err == nil {
		err = s.drain(p, configs)
	}
	if err != nil {
		return nil, err
	}
	var report []Tombstones
	for _, shard := range sorted(configs) {
		t := Tombstones{Shard: shard, Epoch: configs[shard].Epoch, Count: left[shard].Count, Highest: left[shard].Highest}
		if d := s.drains[shard]; d != nil && len(d.left) == 0 {
			t.Drained = d.floor
		}
		if t.Count > 0 || t.Drained > 0 {
			report = append(report, t)
		}
	}
	return report, nil
}

// drain goes on with the searches, and begins those for new floors. An object counts as drained once it is seen clean,
// or committed at or above the floor: its later versions are above.
func (s *Sweeper) drain(p SweptPlane, configs map[uint16]chain.ShardConfig) error {
	begun := make(map[uint16]*drain)
	drains := make(map[uint16]*drain)
	for shard, c := range configs {
		if !c.Head() || c.Floor == c.Bar {
			continue
		}
		d := s.drains[shard]
		if d == nil || d.epoch != c.Epoch || d.floor != c.Floor {
			d = &drain{epoch: c.Epoch, floor: c.Floor}
			begun[shard] = d
		}
		drains[shard] = d
	}
	if len(begun) > 0 {
		dirty, err := p.Dirty(math.MaxInt)
		if err != nil {
			return err
		}
		for i := range dirty {
			if d := begun[dirty[i].Key.Shard(s.shards)]; d != nil {
				d.left = append(d.left, dirty[i].Key)
			}
		}
	}
	for _, d := range drains {
		var failed error
		d.left = slices.DeleteFunc(d.left, func(k wire.Key) bool {
			o, found, err := p.Object(k)
			if err != nil {
				failed = err
			}
			return err == nil && (!found || o.Clean() || o.Committed >= d.floor)
		})
		if failed != nil {
			return failed
		}
	}
	s.drains = drains
	return nil
}
