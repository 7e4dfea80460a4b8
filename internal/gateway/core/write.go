package core

import (
	"cmp"
	"errors"
	"maps"
	"slices"
)

// write is a client's transaction on its way.
type write struct {
	id        uint64
	txn       *Txn
	keys      []string
	life      *life
	guard     int64            // the session key's mod_revision that the transaction names
	instances map[string]int64 // instance of each key when the write began, 0: not placed
	bits      map[string]bool  // keys of which the own bit is set
	asked     map[string]bool  // keys whose INTENT the write waits for
	turns     int              // how often it was refused
	done      bool             // etcd has executed it
	apart     bool             // etcd does not take the transaction as a whole: the outcome is found out first
}

// own is the state of a gateway's own writes of a key.
type own struct {
	under    map[*write]bool // under way
	instance int64           // of the object in which the bit was set last
	ticket   uint32
	set      bool  // the bit may be set
	newest   Entry // that any of the writes under the bit saw
	// tainted counts writes of unknown outcome, and those after which nothing was read: only a clean-up clears the bit.
	tainted uint64
}

// older reports whether a write of the key that began under an instance before this one may still be executed. One that
// etcd has executed may wait for the chain, which does not concern an object that is loaded later.
func (l *life) older(key string, instance int64) bool {
	if o := l.keys[key]; o != nil {
		for w := range o.under {
			if !w.done && w.instances[key] < instance {
				return true
			}
		}
	}
	for w := range l.ranged {
		if !w.done && w.txn.spans(key) && w.instances[key] < instance {
			return true
		}
	}
	return false
}

// Txn takes a client's transaction.
func (g *Gateway) Txn(id uint64, t *Txn) {
	begin := func() { g.begin(&write{id: id, txn: t}) }
	if g.Serving() {
		begin()
	} else {
		g.waiting = append(g.waiting, begin)
	}
}

// begin registers a write as under way, then sets the bits.
func (g *Gateway) begin(w *write) {
	l := g.life
	w.life, w.keys = l, w.txn.Keys()
	w.instances, w.bits, w.asked = make(map[string]int64), make(map[string]bool), make(map[string]bool)
	if len(w.txn.Spans) > 0 {
		l.ranged[w] = true
		named := make(map[string]bool, len(w.keys))
		for _, key := range w.keys {
			named[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(l.placed)) {
			if !named[key] && w.txn.spans(key) {
				w.keys = append(w.keys, key)
			}
		}
	}
	for _, key := range w.keys {
		o := l.keys[key]
		if o == nil {
			o = &own{under: make(map[*write]bool)}
			l.keys[key] = o
		}
		o.under[w] = true
		w.instances[key] = l.placed[key]
	}
	for _, key := range w.keys {
		if instance := w.instances[key]; instance != 0 && g.on(Intent) {
			if l.keys[key].shared(w, key, instance) {
				w.bits[key] = true
				continue
			}
			w.asked[key] = true
			set := Op{Kind: SetBit, Key: key, Instance: instance, Bit: l.bit}
			g.chain(set, func(a Answer) { g.intended(w, key, instance, a) })
		}
	}
	if len(w.asked) == 0 {
		g.commit(w)
	}
}

// answered ends the wait of a write for the INTENT of a key.
func (g *Gateway) answered(w *write, key string) {
	if w.asked[key] {
		if delete(w.asked, key); len(w.asked) == 0 {
			g.commit(w)
		}
	}
}

// removed ends the wait of writes for INTENTs of an object of a key that the directory does not name any more: no gateway
// reads it. The chain may not answer, and the gateway that placed the key anew waits for these writes.
func (g *Gateway) removed(l *life, key string) {
	o := l.keys[key]
	if o == nil {
		return
	}
	for _, w := range slices.SortedFunc(maps.Keys(o.under), func(a, b *write) int { return cmp.Compare(a.id, b.id) }) {
		if w.instances[key] != l.placed[key] {
			g.answered(w, key)
		}
	}
}

// shared reports whether the bit is set for another write that is under way. Then it needs no INTENT for this one: the bit is
// cleared when no write is under way any more. A clean-up clears it too, so it is not shared after a write of unknown outcome.
func (o *own) shared(w *write, key string, instance int64) bool {
	if !o.set || o.instance != instance || o.tainted != 0 {
		return false
	}
	for other := range o.under {
		if other != w && other.bits[key] && other.instances[key] == instance {
			return true
		}
	}
	return false
}

func (g *Gateway) intended(w *write, key string, instance int64, a Answer) {
	if o := w.life.keys[key]; a.Status == OK && o != nil {
		w.bits[key] = true
		if instance > o.instance {
			o.instance, o.ticket, o.tainted = instance, 0, 0
		}
		if instance == o.instance {
			o.ticket, o.set = max(o.ticket, a.Ticket), true
		}
	}
	g.answered(w, key)
}

// maxInside is how many keys are read in the transaction that writes them. More are read after it.
const maxInside = 16

func (g *Gateway) commit(w *write) {
	if w.apart {
		g.findOut(w)
	} else {
		g.execute(w, Whole, nil)
	}
}

// findOut executes a transaction in two steps: its outcome, and then the branch, on the condition that the outcome is still the same.
func (g *Gateway) findOut(w *write) {
	g.etcd(w.life, Request{Txn: w.txn, Part: Outcome}, func(r *Result) {
		switch {
		case r.Unknown || r.Err != nil: // nothing was to be applied
			g.fail(w, NotApplied, r.Err)
			g.ended(w)
		case r.Succeeded:
			g.execute(w, Then, slices.Concat(w.txn.If, r.Pin))
		default:
			g.execute(w, Else, r.Pin)
		}
	})
}

func (g *Gateway) execute(w *write, part Part, pin []Cond) {
	l := w.life
	r := Request{Txn: w.txn, Part: part}
	behind := w.placedKeys()
	if len(behind) <= maxInside && !w.txn.Erases {
		r.Get = behind
	}
	if w.txn.Raw == nil {
		r.Show = w.keys[:1]
	}
	w.guard = l.mod
	if g.on(Guard) {
		r.If = []Cond{{Key: g.names.session + l.lease, Kind: ModIs, Rev: w.guard}}
	}
	if len(w.bits) > 0 && g.on(OwnBit) {
		r.If = append(r.If, Cond{Key: g.bitKey(l.bit), Kind: CreateIs, Rev: l.bitCreate})
	}
	if g.on(SameOutcome) {
		r.If = append(r.If, pin...)
	}
	g.etcd(l, r, func(result *Result) {
		switch {
		case result.Unknown && l.over:
			g.fail(w, Unknown, result.Err) // the session is gone, which fences the write
		case result.Unknown:
			g.uncertain(w, result.Err)
		case result.TooMany && part == Whole:
			w.apart = true
			g.commit(w)
		case result.Err != nil:
			g.fail(w, NotApplied, result.Err)
			g.ended(w)
		case !result.Held:
			g.refused(w)
		default:
			w.done = true
			g.acknowledge(l)
			g.pushed(result.Rev, func() {
				g.replied(w, result)
				unread := (result.Unread || len(behind) > maxInside) && !w.txn.Erases
				switch {
				case !unread:
					g.saw(w, w.keys, result)
				case len(behind) > 0 && g.on(ReadBehind):
					g.readBehind(w, behind)
					return
				}
				g.ended(w)
			})
		}
	})
}

func (g *Gateway) replied(w *write, r *Result) {
	reply := Reply{ID: w.id, Rev: r.Rev, Succeeded: r.Succeeded, Raw: r.Raw}
	if w.txn.Raw == nil {
		reply.Entry = shown(r, w.keys[0])
	}
	g.emit(reply)
}

// placedKeys are the keys whose objects the write may make older than etcd's state. What is not placed is nobody's
// business but the client's.
func (w *write) placedKeys() (keys []string) {
	for _, key := range w.keys {
		if w.instances[key] != 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// readBehind reads, after a write, the keys that it may have written, a round at a time: what it finds is as new as the write,
// or newer.
func (g *Gateway) readBehind(w *write, keys []string) {
	n := min(len(keys), maxRound)
	g.surely(w.life, Request{Get: keys[:n]}, func(r *Result) {
		if w.life.over {
			return
		}
		g.pushed(r.Rev, func() {
			g.saw(w, keys[:n], r)
			if n == len(keys) {
				g.ended(w)
			} else {
				g.readBehind(w, keys[n:])
			}
		})
	})
}

// saw notes keys that were read behind a write.
func (g *Gateway) saw(w *write, keys []string, r *Result) {
	for _, key := range keys {
		o := w.life.keys[key]
		if o == nil || w.instances[key] == 0 {
			continue
		}
		if e := r.entry(key); e.Rev > o.newest.Rev {
			o.newest = e
		}
	}
}

// MaxTurns bounds how often a write is tried again. Its guard fails when the session key is rewritten, and its pin when what
// its outcome depends on is written.
const MaxTurns = 32

// ErrTurns is the error of a write that was tried too often. Nothing was applied.
var ErrTurns = errors.New("other writes changed what the transaction's outcome depends on, each time it was tried")

// refused handles a write whose guard or pin failed: nothing was applied. Either the session key was rewritten, or the session
// is gone, or the outcome may be another.
func (g *Gateway) refused(w *write) {
	l, key := w.life, g.names.session+w.life.lease
	if w.turns++; w.turns > MaxTurns {
		g.fail(w, NotApplied, ErrTurns)
		g.ended(w)
		return
	}
	if !l.over && w.guard != l.mod {
		g.commit(w)
		return
	}
	again := func() { g.begin(&write{id: w.id, txn: w.txn, turns: w.turns}) }
	if l.over {
		g.later(again)
		return
	}
	g.surely(l, Request{Get: []string{key, g.bitKey(l.bit)}}, func(r *Result) {
		kv, alive := r.KVs[key]
		if !alive || kv.Create != l.create || len(w.bits) > 0 && !g.hasBit(l, r) {
			g.lost(l)
			g.later(again)
			return
		}
		l.mod = max(l.mod, kv.Mod)
		g.commit(w)
	})
}

func (g *Gateway) later(begin func()) {
	if g.Serving() {
		begin()
	} else {
		g.waiting = append(g.waiting, begin)
	}
}

// uncertain handles a write of unknown outcome. It counts as under way until the session key has been rewritten: then its guard can
// never hold any more.
func (g *Gateway) uncertain(w *write, err error) {
	l := w.life
	g.fail(w, Unknown, err)
	if !g.on(Fence) {
		g.taint(w)
		g.ended(w)
		return
	}
	l.unknown = append(l.unknown, w)
	g.fence(l)
}

func (g *Gateway) fence(l *life) {
	if l.fencing || l.over || len(l.unknown) == 0 {
		return
	}
	l.fencing = true
	key := g.names.session + l.lease
	g.surely(l, Request{
		If:  []Cond{{Key: key, Kind: CreateIs, Rev: l.create}},
		Put: []Put{{Key: key, Value: g.options.About, Session: true}}, Get: []string{key},
	}, func(r *Result) {
		l.fencing = false
		switch {
		case l.over:
			return
		case !r.Held:
			g.lost(l)
			return
		}
		l.mod = max(l.mod, r.KVs[key].Mod)
		var rest, done []*write
		for _, w := range l.unknown {
			if w.guard < l.mod {
				done = append(done, w)
			} else {
				rest = append(rest, w)
			}
		}
		l.unknown = rest
		for _, w := range done {
			g.taint(w)
			g.ended(w)
		}
		g.fence(l)
	})
}

func (g *Gateway) fail(w *write, f Failure, err error) { g.emit(Reply{ID: w.id, Failure: f, Err: err}) }

// taint leaves the bits of a write to a clean-up.
func (g *Gateway) taint(w *write) {
	for _, key := range w.keys {
		if o := w.life.keys[key]; w.bits[key] && o != nil && o.instance == w.instances[key] {
			o.tainted++
			w.life.suspects[key] = true
		}
	}
}

// ended takes a write from those under way, and clears bits that nothing needs any more. The last write under a bit clears it,
// with the newest that any of them saw.
func (g *Gateway) ended(w *write) {
	l := w.life
	if l.over {
		return
	}
	delete(l.ranged, w)
	for _, key := range w.keys {
		o := l.keys[key]
		if o == nil {
			continue
		}
		delete(o.under, w)
		if len(o.under) > 0 {
			continue
		}
		if !o.set {
			delete(l.keys, key)
			continue
		}
		g.resolve(l, key, o)
	}
	g.acknowledge(l)
}

func (g *Gateway) resolve(l *life, key string, o *own) {
	ticket, instance := o.ticket, o.instance
	if o.newest.Rev == 0 { // no write read the key: an earlier session may have set the bit, for a write that the object lacks
		o.tainted++
	}
	if o.tainted != 0 {
		l.suspects[key] = true
	}
	op := Op{
		Kind: Resolve, Key: key, Instance: instance, Bit: l.bit, Ticket: ticket, Clear: o.tainted == 0, Entry: o.newest,
	}
	g.chain(op, func(Answer) {
		if len(o.under) == 0 && o.tainted == 0 && o.ticket == ticket && o.instance == instance && l.keys[key] == o {
			delete(l.keys, key)
		}
	})
}

// shown is a key as a client sees it.
func shown(r *Result, key string) Entry {
	e := r.entry(key)
	if kv, ok := r.KVs[key]; ok {
		e.State, e.Create, e.Version, e.Value = kv.state(), kv.Create, kv.Version, kv.Value
	}
	return e
}
