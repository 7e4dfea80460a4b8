package chaos

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// calm is the time for which all chains have to be whole before earlier faults are forgotten: by
// then the map shows the controllers' suspicions.
const calm = time.Second

// guard limits faults to those that the cluster must survive: in every chain one complete member
// stays unaffected, and so does a majority of the controllers.
type guard struct {
	c        *cluster
	impaired map[string]bool // nodes that may have been removed from their chains and may not be back
	calmFrom time.Time       // all chains are whole since; zero: not whole
}

// permits reports whether a fault may be injected in addition to the active ones.
func (g *guard) permits(ctx context.Context, f *fault, active []*fault, controllers int) bool {
	for _, host := range f.hosts {
		if host == "" {
			return false
		}
	}
	if f.silent != "" {
		silent := 1
		for _, other := range active {
			if other.silent != "" {
				silent++
			}
		}
		return silent <= (controllers-1)/2
	}
	return f.costs == "" || g.survives(ctx, f.costs)
}

// survives reports whether every chain keeps a complete member without the node and the impaired
// nodes. It needs the newest map, which the leader identifies.
func (g *guard) survives(ctx context.Context, node string) bool {
	if len(g.impaired)+1 >= g.c.setup.Replicas && !g.impaired[node] {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, calm)
	defer cancel()
	leading, err := g.c.setup.Leader(asking, g.c.lab)
	m := g.c.follower.Map()
	if err != nil {
		return false
	}
	if m.Version < leading.Change {
		g.c.follower.Stale(m.Version)
		return false
	}
	for i := range m.Chains {
		if !g.keeps(m, &m.Chains[i], node) {
			return false
		}
	}
	return true
}

// keeps reports whether a chain keeps a complete, unaffected member.
func (g *guard) keeps(m *topology.Map, chain *topology.MapChain, node string) bool {
	for _, member := range m.Complete(chain) {
		if member.Name != node && !g.impaired[member.Name] {
			return true
		}
	}
	return false
}

// watch forgets impaired nodes, except those of active faults, once all chains have been whole for
// a while. It reports whether the cluster has just become whole.
func (g *guard) watch(active []*fault) bool {
	now := time.Now()
	if !g.c.whole(g.c.follower.Map()) {
		g.calmFrom = time.Time{}
		return false
	}
	if g.calmFrom.IsZero() {
		g.calmFrom = now
	}
	if now.Sub(g.calmFrom) < calm {
		return false
	}
	repaired := len(g.impaired) > 0
	clear(g.impaired)
	for _, f := range active {
		if f.costs != "" {
			g.impaired[f.costs] = true
		}
	}
	return repaired && len(g.impaired) == 0
}

// struck records a fault that begins.
func (g *guard) struck(f *fault) {
	if f.costs != "" {
		g.impaired[f.costs] = true
		g.calmFrom = time.Time{}
	}
}
