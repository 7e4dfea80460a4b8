package gatewaysim

import (
	"errors"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// state is a key at a revision.
type state struct {
	rev    int64
	exists bool
	kv     core.KV
}

// etcd executes requests one at a time and keeps the whole history.
type etcd struct {
	w       *world
	rev     int64
	times   []uint64 // when etcd reached each revision, from 2 on
	keys    map[string]core.KV
	history map[string][]state
	events  []change // of the clients' keys
	dir     []core.Change
	leases  map[string]uint64 // expiry
	dead    map[string]bool
	doomed  map[string]bool     // leases that are not extended any more
	owned   map[string][]string // keys of a session's lease
	numbers map[string]int64    // of sessions' leases
	number  int64               // of the lease of the own key that is written; 0: none
	clients clientLeases
	applied map[uint64]int // transactions that changed something
	away    uint64         // until when nothing is executed
	auth    authentication
}

func newEtcd(w *world) *etcd {
	return &etcd{
		w: w, rev: 1, keys: make(map[string]core.KV), history: make(map[string][]state), leases: make(map[string]uint64),
		dead: make(map[string]bool), doomed: make(map[string]bool), owned: make(map[string][]string), applied: make(map[uint64]int),
		numbers: make(map[string]int64), clients: newClientLeases(), auth: authentication{revision: 1},
	}
}

// next begins a revision, now.
func (e *etcd) next() {
	e.rev++
	e.times = append(e.times, e.w.Now)
}

// older is a revision that a member may have, which is behind.
func (e *etcd) older() int64 {
	then := e.w.Now - e.w.rng.Uint64N(longestBehind)
	n, _ := slices.BinarySearch(e.times, then)
	return int64(n) + 1
}

// longestBehind is how old the state of a member may be.
const longestBehind = 20 * ms

func (e *etcd) holds(c *core.Cond, rev int64) bool {
	if c.End != "" {
		return e.count(core.Span{From: c.Key, End: c.End}, rev) == 0
	}
	kv := e.at(c.Key, rev).kv
	switch c.Kind {
	case core.ModIs:
		return kv.Mod == c.Rev
	case core.CreateIs:
		return kv.Create == c.Rev
	case core.ValueIs:
		return kv.Create != 0 && kv.Value == c.Value
	case core.ExistsBelow:
		return kv.Create != 0 && kv.Value < c.Value
	}
	return kv.Value < c.Value
}

// count counts the keys of a span at a revision.
func (e *etcd) count(s core.Span, rev int64) (n int) {
	for key := range e.history {
		if s.Has(key) && e.at(key, rev).exists {
			n++
		}
	}
	return n
}

func (e *etcd) all(conds []core.Cond, rev int64) bool {
	for i := range conds {
		if !e.holds(&conds[i], rev) {
			return false
		}
	}
	return true
}

// do executes a request, under the lease of a session.
func (e *etcd) do(lease string, r *core.Request) *core.Result {
	switch t := r.Txn; {
	case t == nil:
	case r.Part == core.Outcome:
		return e.outcome(t)
	case r.Part == core.Whole && len(r.If) > 0 && e.w.tooWide(t):
		return &core.Result{Err: errTooMany, TooMany: true}
	}
	rev := e.rev
	if e.ownState(r) {
		rev = e.older()
	}
	result := &core.Result{Held: e.all(r.If, rev), NoLease: e.noLease(r), KVs: make(map[string]core.KV)}
	if result.Held && r.Txn != nil && !e.allows(r.Txn) {
		return &core.Result{Err: errRefused}
	}
	for _, p := range r.Put {
		if p.Session && !e.grant(lease) {
			result.Held = false
		}
	}
	if result.Held && !result.NoLease {
		next, changed := e.rev+1, false
		for _, p := range r.Put {
			changed = true
			e.putOwn(next, &p, lease)
		}
		for _, key := range r.Delete {
			changed = e.drop(next, key) || changed
		}
		for _, s := range r.Spans {
			changed = e.dropSpan(next, s) || changed
		}
		if t := r.Txn; t != nil {
			var writes []core.Write
			writes, result.Succeeded = e.branch(t, rev)
			if r.Part != core.Whole && result.Succeeded != (r.Part == core.Then) {
				e.w.broken("outcome: the wrong branch of transaction %d is executed", t.ID)
			}
			changed = e.write(next, t, writes) || changed
		} else if changed {
			e.w.result.OwnWrites++
		}
		if changed {
			e.next()
			rev = e.rev
			e.w.changed()
		}
	}
	if result.Rev = rev; r.Leases != 0 {
		result.Leases = e.living()
	}
	reads := append(slices.Clone(r.Get), r.Show...)
	if r.Txn != nil && e.w.unread(r.Txn) {
		result.Unread, reads = true, r.Show
	}
	for _, prefix := range r.List {
		for key := range e.keys {
			if strings.HasPrefix(key, prefix) {
				reads = append(reads, key)
			}
		}
	}
	for _, key := range reads {
		if is := e.at(key, rev); is.exists {
			result.KVs[key] = is.kv
		}
	}
	return result
}

// ownState reports whether a member executes a request on its own state.
func (e *etcd) ownState(r *core.Request) bool {
	writes := len(r.Put)+len(r.Delete)+len(r.Spans) > 0
	if t := r.Txn; t != nil {
		writes = r.Part != core.Else && len(t.Then)+len(t.Spans) > 0 || r.Part != core.Then && len(t.Else) > 0
	}
	reads := len(r.List) > 0 || len(r.Get) > 0 && !(r.Txn != nil && e.w.unread(r.Txn))
	return !writes && !reads && !core.OwnState(writes, reads, e.w.Without)
}

// errTooMany is that of a transaction that does not fit.
var errTooMany = errors.New("too many operations")

// outcome finds out whether the conditions of a transaction hold.
func (e *etcd) outcome(t *core.Txn) *core.Result {
	r := &core.Result{Held: true, Succeeded: true, Rev: e.rev}
	for i := range t.If {
		if c := &t.If[i]; !e.holds(c, e.rev) {
			r.Succeeded, r.Pin = false, []core.Cond{{Key: c.Key, Kind: core.ModIs, Rev: e.keys[c.Key].Mod}}
			break
		}
	}
	return r
}

func (e *etcd) write(rev int64, t *core.Txn, writes []core.Write) bool {
	id, changed := t.ID, false
	for _, wr := range writes {
		if wr.Delete {
			changed = e.drop(rev, wr.Key) || changed
			continue
		}
		e.putClients(rev, id, &wr)
		changed = true
	}
	for _, s := range t.Spans {
		if s.Has(ownPrefix) {
			e.w.broken("hidden: a client deletes the gateways' keys at revision %d", rev)
		}
		changed = e.dropSpan(rev, s) || changed
	}
	if changed {
		e.applied[id]++
		if e.applied[id] > 1 {
			e.w.broken("twice: a transaction was applied at revision %d for the second time", rev)
		}
	}
	return changed
}

func (e *etcd) put(rev int64, key, value string, leased bool) {
	kv := e.keys[key]
	if kv.Create == 0 {
		kv.Create = rev
	}
	kv.Value, kv.Mod, kv.Leased, kv.Lease = value, rev, leased, e.number
	kv.Version++
	e.keys[key] = kv
	e.record(rev, key, true, kv)
}

func (e *etcd) dropSpan(rev int64, s core.Span) (changed bool) {
	for _, key := range sortedKeys(e.keys) {
		changed = s.Has(key) && e.drop(rev, key) || changed
	}
	return changed
}

func (e *etcd) drop(rev int64, key string) bool {
	if _, ok := e.keys[key]; !ok {
		return false
	}
	delete(e.keys, key)
	e.clients.attach(key, 0)
	e.record(rev, key, false, core.KV{})
	return true
}

func (e *etcd) record(rev int64, key string, exists bool, kv core.KV) {
	e.history[key] = append(e.history[key], state{rev, exists, kv})
	if change, is := core.ChangeOf(ownPrefix, key, kv.Value, rev); is {
		e.dir = append(e.dir, change)
		return
	}
	if !strings.HasPrefix(key, keyPrefix) {
		return
	}
	e.events = append(e.events, change{key, rev})
}

// at is a key as it was at a revision.
func (e *etcd) at(key string, rev int64) state {
	list := e.history[key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].rev <= rev {
			return list[i]
		}
	}
	return state{}
}

// grant makes a session's lease, unless it ended.
func (e *etcd) grant(lease string) bool {
	if e.dead[lease] {
		return false
	}
	if e.leases[lease] == 0 {
		e.extend(lease)
	}
	return true
}

// extend keeps a lease alive; false: it ended.
func (e *etcd) extend(lease string) bool {
	if e.dead[lease] {
		return false
	}
	until := e.w.Now + uint64(e.w.Lease)
	e.leases[lease] = until
	if e.numbers[lease] == 0 {
		e.numbers[lease] = int64(len(e.numbers)) + 1
	}
	e.w.After(until-e.w.Now, func() {
		if e.leases[lease] == until && !e.dead[lease] {
			e.end(lease)
		}
	})
	return true
}

func (e *etcd) end(lease string) {
	if e.dead[lease] { // its keys may have other leases now
		return
	}
	e.dead[lease] = true
	changed := false
	for _, key := range e.owned[lease] {
		if e.keys[key].Lease == e.numbers[lease] { // not deleted since, and another session's
			changed = e.drop(e.rev+1, key) || changed
		}
	}
	if changed {
		e.next()
		e.w.note("etcd ends session %s at %d", lease, e.rev)
		e.w.changed()
	}
}
