package engine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/placement"
)

const (
	// chooseEvery is how often the gateway decides which keys have a place.
	chooseEvery = 200 * time.Millisecond
	// survey is how often the gateway looks at the others.
	survey = 2 * time.Second
)

// places is what the gateway knows of its decisions.
type places struct {
	mu       sync.Mutex
	mine     placement.Placed     // keys that this gateway placed, and answers for
	busy     map[string]bool      // under way
	not      map[string]time.Time // until when a key is not tried
	missing  map[string]bool      // placed keys without an object, or with one from before this session
	excluded map[string]bool
	gateways int           // that live
	wake     chan struct{} // a pinned key was read that has no place
	budget   placement.Budget
	asked    struct{ writes, reads atomic.Uint64 } // of clients at etcd, since the last decision
}

func (p *places) init() {
	p.mine, p.busy, p.not = make(placement.Placed), make(map[string]bool), make(map[string]time.Time)
	p.missing, p.excluded, p.gateways = make(map[string]bool), make(map[string]bool), 1
	p.wake = make(chan struct{}, 1)
}

// pinned notes that etcd answered a read of a pinned key.
func (p *places) pinned(key string) {
	p.mu.Lock()
	_, mine := p.mine[key]
	wait := mine || p.busy[key] || p.excluded[key] || time.Now().Before(p.not[key])
	p.mu.Unlock()
	if wait {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // it is noted already
	}
}

// lost notes that a placed key has no object that may be read, so that it is placed anew.
func (p *places) lost(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.missing) < maxCounted {
		p.missing[key] = true
	}
}

// choose decides now and then which keys have a place, and at once if a pinned key is read.
func (e *Engine) choose() {
	ticker := time.NewTicker(chooseEvery)
	defer ticker.Stop()
	var last time.Time
	if e.survey() {
		last = time.Now()
	}
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-e.places.wake:
			if !last.IsZero() {
				e.decide(time.Now())
			}
		case now := <-ticker.C:
			if now.Sub(last) > survey && e.survey() {
				last = now
			}
			if !last.IsZero() {
				e.decide(now)
			}
		}
	}
}

// survey learns how many gateways live and which keys are excluded. It takes over keys of gateways that are gone, and leaves
// keys to gateways that placed them anew.
func (e *Engine) survey() bool {
	ctx, cancel := context.WithTimeout(e.ctx, ownWithin)
	defer cancel()
	answer, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{Key: []byte(OwnPrefix), RangeEnd: []byte(OwnPrefix + dictionaries)})
	if err != nil {
		return false
	}
	seen, excluded := &core.Survey{Sessions: make(map[string]bool), Directory: make(map[string]string)}, make(map[string]bool)
	for _, kv := range answer.Kvs {
		kind, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), OwnPrefix), "/")
		switch kind + "/" {
		case core.SessionPrefix:
			seen.Sessions[name] = true
		case core.ExclusionPrefix:
			excluded[name] = true
		case core.DirectoryPrefix:
			seen.Directory[name] = core.Owner(string(kv.Value))
		}
	}
	if err := e.learn(ctx); err != nil {
		e.o.Log.Debug("dictionaries for values", "error", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, now := &e.places, e.usage.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gateways, p.excluded = max(1, len(seen.Sessions)), excluded
	for key := range seen.Directory {
		if _, mine := p.mine[key]; !mine && e.core.Owns(seen, key) {
			p.mine[key] = now
		}
	}
	for key := range p.mine {
		if !e.core.Owns(seen, key) && !p.busy[key] {
			delete(p.mine, key)
		}
	}
	return true
}

// decide places and removes keys.
func (e *Engine) decide(now time.Time) {
	if !e.serving() {
		return
	}
	usages := e.usage.list()
	p, o := &e.places, e.o.Placement
	p.mu.Lock()
	o.Capacity /= p.gateways
	usages = slices.DeleteFunc(usages, func(u placement.Usage) bool {
		return p.excluded[u.Key] || strings.HasPrefix(u.Key, OwnPrefix)
	})
	d := placement.Choose(&o, p.mine, usages, e.usage.now())
	d.Urgent = d.Urgent || slices.ContainsFunc(d.Remove, func(key string) bool { return p.excluded[key] })
	p.budget.Wrote(float64(p.asked.writes.Swap(0)))
	p.budget.Read(float64(p.asked.reads.Swap(0)))
	p.budget.Afford(&o, &d, e.usage.now())
	missing := p.missing
	p.missing = make(map[string]bool)
	var place, remove []string
	for _, key := range append(d.Place, p.again(missing, d.Remove)...) {
		if !p.busy[key] && now.After(p.not[key]) && !p.excluded[key] {
			p.not[key] = now.Add(core.TryAgain)
			place = append(place, key)
		}
	}
	for _, key := range d.Remove {
		if !p.busy[key] {
			p.busy[key] = true
			remove = append(remove, key)
		}
	}
	for key, until := range p.not {
		if now.After(until) {
			delete(p.not, key)
		}
	}
	p.mu.Unlock()
	e.do(func(g *core.Gateway) {
		place = slices.DeleteFunc(place, func(key string) bool { return !g.Serving() || g.Has(key) && !missing[key] })
		p.mu.Lock()
		for _, key := range place {
			p.busy[key] = true
		}
		p.mu.Unlock()
		g.Place(place...)
		g.Unplace(remove...)
	})
}

// again lists the missing keys that keep their place. Those of other gateways are placed if they are worth it here.
func (p *places) again(missing map[string]bool, remove []string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(missing)), func(key string) bool {
		_, mine := p.mine[key]
		return !mine || slices.Contains(remove, key)
	})
}

// placed takes what came of a placement or removal.
func (e *Engine) placed(effect core.Placed) {
	p := &e.places
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, effect.Key)
	switch {
	case effect.Err != nil:
		p.not[effect.Key] = time.Now().Add(core.TryAgain)
		e.o.Log.Debug("a key's place did not change", "key", effect.Key, "reason", effect.Err)
	case effect.Gone:
		delete(p.mine, effect.Key)
	default:
		p.mine[effect.Key] = e.usage.now()
	}
}
