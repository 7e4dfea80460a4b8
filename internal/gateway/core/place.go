package core

import (
	"errors"
	"slices"
	"time"
)

// Reasons for which a key is not placed.
var (
	ErrBusy    = errors.New("another change of the key's place is under way")
	ErrFull    = errors.New("the chain has no room for the object")
	ErrChain   = errors.New("the chain does not answer, or lost its state meanwhile: try again")
	ErrSession = errors.New("the gateway's session ended meanwhile")
	// ErrLeft says that the chain has an object of the instance, or of a later one. etcd was restored since it was
	// made, and the object may have a value that is lost: [Cell.Apply] would leave it as it is.
	ErrLeft = errors.New("the chain has an object of before etcd was restored: etcd's revision has to pass it first")
)

// TryAgain is how soon a key is placed again after that failed, or after its object was lost.
const TryAgain = time.Second

// maxRound is the most keys of one round: etcd bounds the operations of a transaction.
const maxRound = 32

// round is keys whose places change together, by one transaction of the directory.
type round struct {
	life     *life
	gone     bool  // they are removed
	count    count // of the directory, as it was read
	instance int64
	keys     []*placement // that are still on their way
}

// placement is a key on its way into the chain, or out of it.
type placement struct {
	key, entry string // entry is its name in the directory
	mod        int64  // of the directory entry that was read
	instance   int64
	epoch      uint64
	entered    int64 // revision of the new directory entry
}

func (r *round) entries() (names []string) {
	for _, p := range r.keys {
		names = append(names, p.entry)
	}
	return names
}

// only makes a round of some of the keys.
func (r *round) only(keys ...*placement) *round {
	part := *r
	part.keys = keys
	return &part
}

// instanceBits are the low bits of an instance, which have the gateway's bit.
const instanceBits = 6

// instance makes the instance of objects that a gateway creates after it has read a revision of etcd. No two objects
// of a key have the same: a gateway that has entered an object's instance in the directory reads a newer revision
// afterwards, as does one that finds that another was faster; and the owner of a bit changes by a write.
func instanceOf(rev int64, bit uint8) int64 { return rev<<instanceBits | int64(bit) }

// Drawn returns what an instance was made of: the revision that was read before, and the gateway's bit.
func Drawn(instance int64) (rev int64, bit uint8) {
	return instance >> instanceBits, uint8(instance & (1<<instanceBits - 1))
}

// rounds splits keys into rounds and calls begin for each. Keys whose places are changing already are left out.
func (g *Gateway) rounds(keys []string, gone bool, begin func(*round)) {
	l := g.life
	var free []*placement
	for _, key := range keys {
		if l == nil || !l.serving || l.placing[key] {
			g.emit(Placed{Key: key, Gone: gone, Err: ErrBusy})
			continue
		}
		l.placing[key] = true
		free = append(free, &placement{key: key, entry: g.names.directory + key})
	}
	for part := range slices.Chunk(free, maxRound) {
		begin(&round{life: l, gone: gone, keys: part})
	}
}

// Place puts keys into the chain, or puts them there anew. [Placed] tells the outcome for each.
func (g *Gateway) Place(keys ...string) { g.rounds(keys, false, g.place) }

func (g *Gateway) place(r *round) {
	l := r.life
	g.surely(l, Request{Get: append(r.entries(), g.names.count)}, func(result *Result) {
		var open bool
		if r.count, open = g.open(result); !open || l.over {
			g.placed(r, ErrBusy)
			return
		}
		r.instance = instanceOf(result.Rev, l.bit)
		for _, p := range r.keys {
			p.mod, p.instance = result.KVs[p.entry].Mod, r.instance
		}
		look := func(p *placement) Op { return Op{Kind: ReadObject, Key: p.key} }
		g.each(r, look, func(p *placement, a Answer) error {
			switch p.epoch = a.Epoch; {
			case a.Status == Away, l.over:
				return ErrChain
			case a.Status == OK && a.Object.Instance >= p.instance && g.on(Fresh):
				return ErrLeft
			}
			return nil
		}, g.create)
	})
}

// each asks the chain to do something for every key, and goes on with those for which that succeeded.
func (g *Gateway) each(r *round, op func(*placement) Op, took func(*placement, Answer) error, then func(*round)) {
	left := len(r.keys)
	var good []*placement
	for _, p := range r.keys {
		g.chain(op(p), func(a Answer) {
			if err := took(p, a); err != nil {
				g.placed(r.only(p), err)
			} else {
				good = append(good, p)
			}
			if left--; left == 0 && len(good) > 0 {
				then(r.only(good...))
			}
		})
	}
}

// placed ends the change of keys' places.
func (g *Gateway) placed(r *round, err error) {
	if r.life.over && err != nil {
		err = ErrSession
	}
	for _, p := range r.keys {
		delete(r.life.placing, p.key)
		g.emit(Placed{p.key, r.gone, err})
	}
}

// create makes the objects before the directory names them: otherwise an INTENT could find nothing, commit after the owner's
// read of etcd, and leave the LOAD stale.
func (g *Gateway) create(r *round) {
	if r.life.over {
		g.placed(r, ErrSession)
		return
	}
	create := func(p *placement) Op { return Op{Kind: Create, Key: p.key, Epoch: p.epoch, Instance: p.instance} }
	g.each(r, create, func(_ *placement, a Answer) error {
		switch a.Status {
		case OK:
			return nil
		case Full:
			return ErrFull
		}
		return ErrChain
	}, g.enter)
}

// enter changes the directory. If it has changed since it was read, the keys whose entries have not are placed from
// the start: under the same instance an entry could come again that another gateway took out. The directory is
// that of one history of etcd: a gateway that has not noticed a restore has made objects of an earlier one.
func (g *Gateway) enter(r *round) {
	request, added := Request{If: g.inTimeline(), Get: r.entries()}, 0
	value := entryOf(r.instance, r.life.lease)
	for _, p := range r.keys {
		request.If = append(request.If, Cond{Key: p.entry, Kind: ModIs, Rev: p.mod})
		request.Put = append(request.Put, Put{Key: p.entry, Value: value})
		if p.mod == 0 {
			added++
		}
	}
	g.recount(&request, r.count, added)
	g.surely(r.life, request, func(result *Result) {
		var in, again, out []*placement
		_, more := g.again(r, result)
		for _, p := range r.keys {
			// A request of unknown outcome was repeated, so the entry may be there although the conditions did not hold.
			switch kv := result.KVs[p.entry]; {
			case kv.Value == value && !r.life.over:
				p.entered, in = kv.Mod, append(in, p)
			case more && kv.Mod == p.mod:
				again = append(again, p)
			default:
				out = append(out, p)
			}
		}
		if len(out) > 0 {
			g.abandon(r.only(out...))
		}
		if len(again) > 0 {
			g.place(r.only(again...))
		}
		if len(in) > 0 {
			g.await(r.only(in...))
		}
	})
}

// again returns the count that the result of a change shows, and reports whether it is another one, so that the
// change may be tried again.
func (g *Gateway) again(r *round, result *Result) (now count, more bool) {
	now, open := g.open(result)
	return now, open && !r.life.over && now.mod != r.count.mod
}

// abandon removes objects that the directory does not name.
func (g *Gateway) abandon(r *round) {
	g.each(r, removal, func(*placement, Answer) error { return nil }, func(r *round) { g.placed(r, ErrBusy) })
}

func removal(p *placement) Op { return Op{Kind: Remove, Key: p.key, Instance: p.instance} }

// await waits until every session has acknowledged the directory's entries or ended, and reads the keys at that moment.
func (g *Gateway) await(r *round) {
	rev, names := int64(0), make([]string, len(r.keys))
	for i, p := range r.keys {
		rev, names[i] = max(rev, p.entered), p.key
	}
	g.acknowledged(r.life, rev, names, func(yes bool, result *Result) {
		switch {
		case r.life.over:
			g.placed(r, ErrSession)
		case yes:
			g.load(r, result)
		default:
			r.life.polls = append(r.life.polls, func() { g.await(r) })
		}
	})
}

// load fills the objects: from now on every write sets a bit, or ended before this read of etcd.
func (g *Gateway) load(r *round, result *Result) {
	g.pushed(result.Rev, func() {
		load := func(p *placement) Op {
			return Op{Kind: Load, Key: p.key, Instance: p.instance, Rev: result.Rev, Entry: result.entry(p.key)}
		}
		g.each(r, load, func(_ *placement, a Answer) error {
			if a.Status != OK {
				return ErrChain
			}
			return nil
		}, func(r *round) { g.placed(r, nil) })
	})
}

// Unplace takes keys out of the chain: the objects first, so that no read hits one when the directory says that its key is not
// placed.
func (g *Gateway) Unplace(keys ...string) {
	g.rounds(keys, true, func(r *round) {
		g.surely(r.life, Request{Get: append([]string{g.names.count}, r.entries()...)}, func(result *Result) {
			var open bool
			if r.count, open = g.open(result); !open || r.life.over {
				g.placed(r, ErrBusy)
				return
			}
			var there, not []*placement
			for _, p := range r.keys {
				if kv, ok := result.KVs[p.entry]; ok {
					p.mod, p.instance = kv.Mod, instanceIn(kv.Value)
					there = append(there, p)
				} else {
					not = append(not, p)
				}
			}
			g.placed(r.only(not...), nil)
			g.each(r.only(there...), removal, func(*placement, Answer) error { return nil }, g.leave)
		})
	})
}

// leave takes entries out of the directory. If it has changed since it was read, the entries that have not are tried
// again. A gateway that has not noticed a restore of etcd has removed objects of an earlier history: the entries
// stay. So do those of a directory that is being emptied.
func (g *Gateway) leave(r *round) {
	request := Request{If: g.inTimeline(), Delete: r.entries(), Get: r.entries()}
	for _, p := range r.keys {
		request.If = append(request.If, Cond{Key: p.entry, Kind: ModIs, Rev: p.mod})
	}
	g.recount(&request, r.count, -len(r.keys))
	g.surely(r.life, request, func(result *Result) {
		var still, done []*placement
		for _, p := range r.keys {
			if !result.Held && result.KVs[p.entry].Mod == p.mod {
				still = append(still, p)
			} else {
				done = append(done, p)
			}
		}
		g.placed(r.only(done...), nil)
		rest := r.only(still...)
		var more bool
		if rest.count, more = g.again(r, result); !more {
			g.placed(rest, ErrBusy)
		} else if len(still) > 0 {
			g.leave(rest)
		}
	})
}
