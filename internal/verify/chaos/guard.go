package chaos

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// calm is how long everything has to be whole before what struck earlier is forgotten: by then controllers that
// suspected somebody have said so in the map.
const calm = time.Second

// guard keeps faults within what the cluster promises to survive: of the members of every chain one complete one stays
// untouched, and a majority of the controllers.
type guard struct {
	c        *cluster
	impaired map[string]bool // nodes that may have lost their place in the chains, and have not got it back for certain
	calmFrom time.Time       // since when everything is whole; zero: it isn't
}

// permits reports whether a fault may strike, beside those that are active.
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

// survives reports whether every chain keeps a complete member besides a node and those that are impaired already. It has to
// know the newest map for that: the leader says which it is.
func (g *guard) survives(ctx context.Context, node string) bool {
	if len(g.impaired)+1 >= g.c.setup.Replicas && !g.impaired[node] {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, calm)
	defer cancel()
	leading, err := g.c.setup.Leader(asking, g.c.lab)
	m := g.c.follower.Map()
	if err != nil || m.Version < leading.Change {
		return false
	}
	for i := range m.Chains {
		if !g.keeps(m, &m.Chains[i], node) {
			return false
		}
	}
	return true
}

// keeps reports whether a chain keeps a complete member that nothing is wrong with.
func (g *guard) keeps(m *topology.Map, chain *topology.MapChain, node string) bool {
	for _, member := range m.Complete(chain) {
		if member.Name != node && !g.impaired[member.Name] {
			return true
		}
	}
	return false
}

// watch forgets nodes that were impaired once everything has been whole for a while, but not those of active faults. It
// reports whether the cluster has just become whole again.
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

// struck notes a fault that begins.
func (g *guard) struck(f *fault) {
	if f.costs != "" {
		g.impaired[f.costs] = true
		g.calmFrom = time.Time{}
	}
}
