package engine

import (
	"maps"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/placement"
)

// scheduler is what the last decision about places was made of.
type scheduler struct {
	options  placement.Options
	placed   placement.Placed
	usages   []placement.Usage
	excluded map[string]bool
	now      float64
}

// scheduler returns the state from which the next decision is made.
func (e *Engine) scheduler() *scheduler {
	s := &scheduler{options: e.o.Placement, usages: e.usage.list(), now: e.usage.now()}
	p := &e.places
	p.mu.Lock()
	s.options.Capacity /= p.gateways
	s.placed, s.excluded = maps.Clone(p.mine), maps.Clone(p.excluded)
	busy := maps.Clone(p.busy)
	p.mu.Unlock()
	e.mu.Lock()
	for i := range s.usages { // another gateway may have placed a key
		key := s.usages[i].Key
		if _, mine := s.placed[key]; !mine && !busy[key] && e.core.Has(key) {
			s.placed[key] = s.now
		}
	}
	e.mu.Unlock()
	return s
}

// excludedReason explains a key that a write reached past the gateways.
const excludedReason = "a write reached etcd past the gateways: netcraq placement allow has it cached again"

func (s *scheduler) corrected(x placement.Explanation) placement.Explanation {
	switch {
	case strings.HasPrefix(x.Key, OwnPrefix):
		x.Reason = "it is one of the gateways' own keys"
	case s.excluded[x.Key]:
		x.Reason = excludedReason
	}
	return x
}

// Hottest describes the keys that this gateway's clients use most.
func (e *Engine) Hottest(most int) []placement.Explanation {
	s := e.scheduler()
	list := placement.Hottest(&s.options, s.placed, s.usages, most, s.now)
	for i := range list {
		list[i] = s.corrected(list[i])
	}
	return list
}

// Explain says why a key has a place, or none.
func (e *Engine) Explain(key string) placement.Explanation {
	s := e.scheduler()
	return s.corrected(placement.Explain(&s.options, s.placed, s.usages, key, s.now))
}
