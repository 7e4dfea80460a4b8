package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

const (
	// nodesWithin bounds a request to the chain's nodes.
	nodesWithin = 500 * time.Millisecond
	// mostAsked is how many keys a request names at most. A switch of software takes 0.3 ms for a key.
	mostAsked = 512
)

// Nodes are the nodes of a chain.
type Nodes interface {
	// Uses asks how often the nodes read and wrote some objects, by their names in the chain. It answers for each of them,
	// in their order. Nodes that do not answer before ctx ends are missing; the error says why.
	Uses(ctx context.Context, objects []string) ([]Uses, error)
}

// Uses are the uses of an object at the nodes of its chain.
type Uses struct {
	Bytes int                      // of the object
	Nodes map[string]placement.Use // by the name of the node
}

// did counts what this gateway did with objects at the chain, of the keys that it asks the nodes for.
type did struct {
	mu   sync.Mutex
	keys map[string]*placement.Use
}

// read counts a read of objects at the chain.
func (d *did) read(keys []string) {
	d.mu.Lock()
	for _, key := range keys {
		if u := d.keys[key]; u != nil {
			u.Reads++
		}
	}
	d.mu.Unlock()
}

// op counts an operation on an object: one write at most, since others may share it.
func (d *did) op(op *core.Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := d.keys[op.Key]
	switch {
	case u == nil: // the revision's operations name no key
	case op.Kind == core.ReadObject:
		u.Reads++
	default:
		u.Writes++
	}
}

// follow counts these keys from now on, and no others. It returns the counts.
func (d *did) follow(keys []string) map[string]placement.Use {
	d.mu.Lock()
	defer d.mu.Unlock()
	counts := make(map[string]*placement.Use, len(keys))
	for _, key := range keys {
		if counts[key] = d.keys[key]; counts[key] == nil {
			counts[key] = new(placement.Use)
		}
	}
	d.keys = counts
	return d.counts()
}

// counts copies the counts; the caller holds the lock.
func (d *did) counts() map[string]placement.Use {
	counts := make(map[string]placement.Use, len(d.keys))
	for key, u := range d.keys {
		counts[key] = *u
	}
	return counts
}

// now returns the counts.
func (d *did) now() map[string]placement.Use {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts()
}

// askNodes counts, at each survey, what others did with the objects that this gateway placed: other gateways, and
// clients that read the chain themselves.
func (e *Engine) askNodes() {
	ticker := time.NewTicker(survey)
	defer ticker.Stop()
	samples, last, trouble := make(map[string]*placement.Sample), "", ""
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		var err error
		if last, err = e.countOthers(samples, last); e.ctx.Err() != nil {
			return
		}
		if err != nil && err.Error() != trouble {
			trouble = err.Error()
			e.o.Log.Warn("some nodes do not say how often keys are read there: what others read there does not count",
				"reason", err)
		}
	}
}

// countOthers asks the nodes once for the keys whose turn it is, those behind the last one. It counts what others did
// since their samples before, replaces these, and returns the last key.
func (e *Engine) countOthers(samples map[string]*placement.Sample, last string) (string, error) {
	e.places.mu.Lock()
	all := slices.Sorted(maps.Keys(e.places.mine))
	e.places.mu.Unlock()
	first := e.did.follow(all)
	maps.DeleteFunc(samples, func(key string, _ *placement.Sample) bool { _, mine := first[key]; return !mine })
	keys := inTurn(all, last, mostAsked)
	if len(keys) == 0 {
		return "", nil
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = e.store.Name(key)
	}
	ctx, cancel := context.WithTimeout(e.ctx, nodesWithin)
	defer cancel()
	uses, err := e.o.Nodes.Uses(ctx, names)
	after := e.did.now()
	for i, key := range keys {
		s := &placement.Sample{
			At: e.usage.now(), Bytes: uses[i].Bytes, Nodes: uses[i].Nodes, Before: first[key], After: after[key],
		}
		if earlier := samples[key]; earlier != nil {
			e.usage.others(key, s.Others(earlier), s.Bytes, earlier.At)
		}
		samples[key] = s
	}
	return keys[len(keys)-1], err
}

// inTurn returns up to most of the sorted keys: those behind a key, and then the first ones.
func inTurn(keys []string, behind string, most int) []string {
	i, found := slices.BinarySearch(keys, behind)
	if found {
		i++
	}
	return slices.Concat(keys[i:], keys[:i])[:min(most, len(keys))]
}
