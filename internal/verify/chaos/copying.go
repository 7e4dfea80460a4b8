package chaos

import (
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// copying tracks copies by the map: a shard's chain has a learner while the shard is copied.
type copying struct {
	now func() time.Duration

	mu          sync.Mutex
	first, last time.Duration // times of the first map with a learner and of the last change of the map
	learnt      map[uint16]bool
}

func newCopying(now func() time.Duration) *copying {
	return &copying{now: now, learnt: make(map[uint16]bool)}
}

// note records a map. It must receive every map.
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

// seen returns the time of the first map with a learner, the time of the map's last change, and the
// number of shards that had a learner.
func (c *copying) seen() (first, last time.Duration, shards int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first, c.last, len(c.learnt)
}
