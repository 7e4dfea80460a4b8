package core

import "errors"

// Reasons for which a key is not placed.
var (
	ErrBusy    = errors.New("another change of the key's place is under way")
	ErrFull    = errors.New("the chain has no room for the object")
	ErrChain   = errors.New("the chain does not answer, or lost its state meanwhile: try again")
	ErrSession = errors.New("the gateway's session ended meanwhile")
)

// placement is a key on its way into the chain.
type placement struct {
	life         *life
	key          string
	gone         bool // it is removed
	directoryKey string
	mod          int64 // of the directory entry that was read
	detached     int64 // revision of the last [Gateway.Detach]: a late entry must not name an object that it left
	shard        uint64
	gen          int64
	entry        int64 // revision of the new directory entry
}

// Place puts a key into the chain, or puts it there anew. [Placed] tells the outcome.
func (g *Gateway) Place(key string) {
	l := g.life
	if l == nil || !l.serving || l.placing[key] {
		g.emit(Placed{Key: key, Err: ErrBusy})
		return
	}
	l.placing[key] = true
	p := &placement{life: l, key: key, directoryKey: g.names.directory + key}
	g.surely(l, Request{Get: []string{p.directoryKey, g.names.detached}}, func(r *Result) {
		p.mod, p.detached = r.KVs[p.directoryKey].Mod, r.KVs[g.names.detached].Mod
		g.chain(Op{Kind: ReadObject, Key: key}, func(a Answer) {
			if a.Status == Away || l.over {
				g.placed(p, ErrChain)
				return
			}
			p.shard = a.Shard
			g.surely(l, Request{Put: []Put{{g.names.generation, "", false}}}, func(r *Result) {
				p.gen = r.Rev
				g.create(p)
			})
		})
	})
}

// placed ends a placement.
func (g *Gateway) placed(p *placement, err error) {
	delete(p.life.placing, p.key)
	if p.life.over && err != nil {
		err = ErrSession
	}
	g.emit(Placed{p.key, p.gone, err})
}

// create makes the object before the directory names it: otherwise an INTENT could find nothing, commit after the owner's read
// of etcd, and leave the LOAD stale.
func (g *Gateway) create(p *placement) {
	if p.life.over {
		g.placed(p, ErrSession)
		return
	}
	g.chain(Op{Kind: Create, Key: p.key, Shard: p.shard, Gen: p.gen}, func(a Answer) {
		switch a.Status {
		case OK:
			g.enter(p)
		case Full:
			g.placed(p, ErrFull)
		default:
			g.placed(p, ErrChain)
		}
	})
}

// enter changes the directory if it has not changed since it was read.
func (g *Gateway) enter(p *placement) {
	key, value := p.directoryKey, entryOf(p.gen, p.life.lease)
	g.surely(p.life, Request{
		If:  []Cond{{Key: key, Kind: ModIs, Rev: p.mod}, {Key: g.names.detached, Kind: ModIs, Rev: p.detached}},
		Put: []Put{{key, value, false}}, Get: []string{key},
	}, func(r *Result) {
		kv := r.KVs[key]
		if p.life.over || kv.Value != value {
			g.abandon(p)
			return
		}
		p.entry = kv.Mod
		g.await(p)
	})
}

func (g *Gateway) abandon(p *placement) {
	g.chain(Op{Kind: Remove, Key: p.key, Gen: p.gen}, func(Answer) { g.placed(p, ErrBusy) })
}

// await waits until every session has acknowledged the directory entry or ended.
func (g *Gateway) await(p *placement) {
	g.acknowledged(p.life, p.entry, func(yes bool) {
		switch {
		case p.life.over:
			g.placed(p, ErrSession)
		case yes:
			g.load(p)
		default:
			p.life.polls = append(p.life.polls, func() { g.await(p) })
		}
	})
}

// load fills the object: from now on every write sets a bit, or ended before this read of etcd.
func (g *Gateway) load(p *placement) {
	g.surely(p.life, Request{Get: []string{p.key}}, func(r *Result) {
		if p.life.over {
			g.placed(p, ErrSession)
			return
		}
		g.pushed(r.Rev, func() {
			g.chain(Op{Kind: Load, Key: p.key, Gen: p.gen, Rev: r.Rev, Entry: r.entry(p.key)}, func(a Answer) {
				if a.Status != OK {
					g.placed(p, ErrChain)
					return
				}
				g.placed(p, nil)
			})
		})
	})
}

// Unplace takes a key out of the chain: the object first, so that no read hits it when the directory says that it is not placed.
func (g *Gateway) Unplace(key string) {
	l := g.life
	if l == nil || !l.serving || l.placing[key] {
		g.emit(Placed{Key: key, Err: ErrBusy})
		return
	}
	l.placing[key] = true
	p := &placement{life: l, key: key, gone: true, directoryKey: g.names.directory + key}
	g.surely(l, Request{Get: []string{p.directoryKey}}, func(r *Result) {
		kv, ok := r.KVs[p.directoryKey]
		if !ok || l.over {
			g.placed(p, nil)
			return
		}
		p.gen, _ = parseEntry(kv.Value)
		g.chain(Op{Kind: Remove, Key: key, Gen: p.gen}, func(Answer) {
			g.surely(l, Request{
				If:     []Cond{{Key: p.directoryKey, Kind: ModIs, Rev: kv.Mod}},
				Delete: []string{p.directoryKey},
			}, func(*Result) { g.placed(p, nil) })
		})
	})
}
