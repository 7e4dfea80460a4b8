package chaos

import (
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// copying follows copies by the map, in which a shard's chain has a learner while it is copied.
type copying struct {
	now func() time.Duration

	mu          sync.Mutex
	first, last time.Duration // learner in the map, and change of it
	learnt      map[uint16]bool
}

func newCopying(now func() time.Duration) *copying {
	return &copying{now: now, learnt: make(map[uint16]bool)}
}

// note is told every map.
func (c *copying) note(m *topology.Map) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard := range m.ByShard {
		if chain := m.Chain(uint16(shard)); chain.Learner >= 0 {
			if len(c.learnt) == 0 {
				c.first = c.now()
			}
			c.learnt[uint16(shard)] = true
		}
	}
	c.last = c.now()
}

// seen returns when the first learner was in the map, when the map changed last, and how many shards had a learner.
func (c *copying) seen() (first, last time.Duration, shards int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first, c.last, len(c.learnt)
}
