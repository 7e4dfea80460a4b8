package core

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// met is the sessions of other gateways that a gateway has met in etcd. A client of etcd can delete a session's key
// while its gateway relies on the session. So a session has ended only when etcd has no lease of it.
type met struct {
	sessions map[string]KV // their keys, by lease
	all      int64         // mod_revision of the key of [names] that each session writes that begins: all until then are met
}

// acknowledged asks whether every session has acknowledged a revision of the directory, or has ended, and reads keys at
// that moment. This gateway knows its own acknowledgement: etcd is not asked before that.
func (g *Gateway) acknowledged(l *life, rev int64, keys []string, then func(yes bool, result *Result)) {
	if l.over || l.follows < rev {
		then(false, nil)
		return
	}
	r := Request{Get: append(slices.Clone(keys), g.names.began), List: []string{g.names.session, g.names.ack}}
	g.surely(l, r, func(r *Result) {
		g.meet(l, r)
		for key := range r.KVs {
			name, session := strings.CutPrefix(key, g.names.session)
			if !session || name == l.lease {
				continue
			}
			if acked, _ := strconv.ParseInt(r.KVs[g.names.ack+name].Value, 10, 64); acked < rev {
				then(false, nil)
				return
			}
		}
		missing := g.missing(r)
		switch {
		case l.over || !g.on(Keyless):
			then(!l.over, r)
		case len(missing) > 0:
			g.restore(l, missing, func() { g.acknowledged(l, rev, keys, then) })
		case r.KVs[g.names.began].Mod == g.met.all && g.met.all != 0:
			then(true, r)
		default:
			g.meetAll(l, r, func(all bool) { then(all && !l.over, r) })
		}
	})
}

// meet notes the sessions in a result. A key without a lease is none: no gateway wrote it.
func (g *Gateway) meet(l *life, r *Result) {
	for key, kv := range r.KVs {
		if name, session := strings.CutPrefix(key, g.names.session); session && name != l.lease && kv.Lease != 0 {
			g.met.sessions[name] = kv
		}
	}
}

// missing are the sessions that were met and whose keys are not in a result.
func (g *Gateway) missing(r *Result) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(g.met.sessions)) {
		if _, is := r.KVs[g.names.session+name]; !is {
			names = append(names, name)
		}
	}
	return names
}

// restore writes the keys of sessions again, under their leases, and forgets those without a lease: these have ended. A
// session whose key was deleted does not count as extended, and ends when its gateway notices. All wait for it until
// then.
func (g *Gateway) restore(l *life, names []string, then func()) {
	left := len(names)
	for _, name := range names {
		key, kv := g.names.session+name, g.met.sessions[name]
		again := Request{
			If: append(g.inTimeline(), Cond{Key: key, Kind: CreateIs}), Put: []Put{{Key: key, Value: kv.Value, Lease: kv.Lease}},
		}
		g.surely(l, again, func(r *Result) {
			if r.NoLease {
				delete(g.met.sessions, name)
			}
			if left--; left == 0 {
				then()
			}
		})
	}
}

// meetAll asks whether all sessions that began until a result were met: etcd has no other lease of a session. One may
// belong to a session whose key was deleted before it was met, or to one that begins.
func (g *Gateway) meetAll(l *life, r *Result, then func(all bool)) {
	g.surely(l, Request{Leases: r.Rev}, func(listed *Result) {
		known := make(map[int64]bool)
		for _, kv := range g.met.sessions {
			known[kv.Lease] = true
		}
		known[r.KVs[g.names.session+l.lease].Lease] = true
		if listed.Unknown || slices.ContainsFunc(listed.Leases, func(lease int64) bool { return !known[lease] }) {
			then(false)
			return
		}
		g.met.all = r.KVs[g.names.began].Mod
		then(true)
	})
}
