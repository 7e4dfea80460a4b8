package gatewaysim

import (
	"errors"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// errRefused is etcd's refusal of a put whose lease, or whose key, does not exist.
var errRefused = errors.New("etcd refuses a put")

// longestLease is how long a lease of a client lasts at most, from its last extension.
const longestLease = 30 * ms

// leasing says how a transaction's puts treat leases.
type leasing struct {
	lease int  // that a leased put is attached to
	keep  bool // ignore_lease: a put keeps the key's lease
}

// clientLeases are the leases of clients. etcd deletes the keys of a lease at once, when it ends.
type clientLeases struct {
	last  int            // number of the last lease that only one key has
	until map[int]uint64 // when a lease ends
	of    map[string]int // lease of a key
	how   map[uint64]leasing
}

func newClientLeases() clientLeases {
	return clientLeases{until: make(map[int]uint64), of: make(map[string]int), how: make(map[uint64]leasing)}
}

// attach attaches a key to a lease, or to none.
func (c *clientLeases) attach(key string, lease int) {
	if lease == 0 {
		delete(c.of, key)
	} else {
		c.of[key] = lease
	}
}

// branch is what a transaction does at a revision.
func (e *etcd) branch(t *core.Txn, rev int64) (writes []core.Write, succeeded bool) {
	if e.all(t.If, rev) {
		return t.Then, true
	}
	return t.Else, false
}

// allows reports whether the leases and keys exist that a transaction's puts need.
func (e *etcd) allows(t *core.Txn) bool {
	writes, _ := e.branch(t, e.rev)
	how, known := e.clients.how[t.ID]
	for _, w := range writes {
		_, there := e.keys[w.Key]
		if known && !w.Delete && (w.Leased && e.clients.until[how.lease] == 0 || how.keep && !there) {
			return false
		}
	}
	return true
}

// putClients executes a put of a client.
func (e *etcd) putClients(rev int64, id uint64, w *core.Write) {
	how, known := e.clients.how[id]
	lease := 0
	switch {
	case how.keep:
		lease = e.clients.of[w.Key]
	case w.Leased && known:
		lease = how.lease
	case w.Leased: // under a lease of its own
		e.clients.last--
		lease = e.clients.last
	}
	e.put(rev, w.Key, w.Value, lease != 0)
	e.clients.attach(w.Key, lease)
	if lease < 0 {
		e.extendClients(lease)
	}
}

// extendClients makes a lease of a client, or extends it.
func (e *etcd) extendClients(lease int) {
	until := e.w.Now + e.w.rng.Uint64N(longestLease)
	e.clients.until[lease] = max(until, e.clients.until[lease])
	e.w.After(until-e.w.Now, func() {
		if e.clients.until[lease] == until {
			e.endClients(lease, "ran out")
		}
	})
}

// endClients ends a lease of a client, with its keys.
func (e *etcd) endClients(lease int, why string) {
	delete(e.clients.until, lease)
	changed := false
	for _, key := range slices.Sorted(maps.Keys(e.clients.of)) {
		if e.clients.of[key] == lease {
			changed = e.drop(e.rev+1, key) || changed
		}
	}
	if changed {
		e.next()
		e.w.result.Expired++
		e.w.note("etcd deletes keys at %d: lease %d %s", e.rev, lease, why)
		e.w.changed()
	}
}
