package core

import (
	"maps"
	"slices"
	"strings"
)

// Free reports whether nothing is placed for certain. Then no gateway answers from the chain, and a revision may be revealed without
// a push. It ends before the gateway acknowledges an entry of the directory, or with the session, for then no acknowledgement is
// waited for.
func (g *Gateway) Free() bool { return g.life != nil && g.life.free && !g.life.over && g.alive() }

// Detach takes all keys out of the directory without the chain: for a gateway that cannot reach it, whose pushes and INTENTs would
// wait. First the entries are closed: every session acknowledges that it does not read these keys from the chain any more, while all
// go on with INTENTs. Only then the entries go. Detach reports whether it has begun.
func (g *Gateway) Detach() bool {
	l := g.life
	if l == nil || !l.serving || g.Free() || l.freeing {
		return false
	}
	l.freeing = true
	g.close(l)
	return true
}

// Rest looks whether nothing is placed, so that the gateway may become free.
func (g *Gateway) Rest() {
	l := g.life
	if l == nil || !l.serving || l.free || l.freeing || len(l.placed) > 0 {
		return
	}
	l.freeing = true
	g.surely(l, Request{List: []string{g.names.directory, g.names.session}}, func(r *Result) {
		l.freeing = false
		if !l.over && len(g.listed(r)) == 0 {
			g.release(l, r)
		}
	})
}

// listed are the entries of the directory that a result has.
func (g *Gateway) listed(r *Result) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(r.KVs)) {
		if strings.HasPrefix(key, g.names.directory) {
			names = append(names, key)
		}
	}
	return names
}

// close closes the entries that the directory has, each in a request of its own, so that a change of one does not hinder the others.
func (g *Gateway) close(l *life) {
	g.surely(l, Request{List: []string{g.names.directory}}, func(r *Result) {
		if l.over {
			return
		}
		newest, open := int64(0), 0
		for _, key := range slices.Sorted(maps.Keys(r.KVs)) {
			kv := r.KVs[key]
			newest = max(newest, kv.Mod)
			if _, closed := parseEntry(kv.Value); closed {
				continue
			}
			open++
			request := Request{
				If: []Cond{{Key: key, Kind: ModIs, Rev: kv.Mod}}, Put: []Put{{Key: key, Value: kv.Value + closedMark}},
			}
			g.surely(l, request, func(*Result) {
				if open--; open == 0 {
					g.close(l)
				}
			})
		}
		if open == 0 {
			g.awaitClosed(l, newest)
		}
	})
}

// awaitClosed waits until all sessions have acknowledged that the entries are closed, up to the newest.
func (g *Gateway) awaitClosed(l *life, newest int64) {
	g.acknowledged(l, newest, nil, func(yes bool, _ *Result) {
		switch {
		case l.over:
		case yes:
			g.empty(l, newest)
		default:
			l.polls = append(l.polls, func() { g.awaitClosed(l, newest) })
		}
	})
}

// empty removes closed entries. It ends when none is left, and begins again if there are others.
func (g *Gateway) empty(l *life, newest int64) {
	g.surely(l, Request{List: []string{g.names.directory, g.names.session}}, func(r *Result) {
		if l.over {
			return
		}
		entries := g.listed(r)
		if len(entries) == 0 {
			l.freeing = false
			g.release(l, r)
			return
		}
		for _, key := range entries {
			if _, closed := parseEntry(r.KVs[key].Value); !closed || r.KVs[key].Mod > newest {
				g.close(l)
				return
			}
		}
		left := len(entries)
		for _, key := range entries {
			request := Request{
				If: []Cond{{Key: key, Kind: ModIs, Rev: r.KVs[key].Mod}}, Delete: []string{key}, Put: []Put{{Key: g.names.detached}},
			}
			g.surely(l, request, func(*Result) {
				if left--; left == 0 {
					g.empty(l, newest)
				}
			})
		}
	})
}

// release takes an empty directory, as it was read. What waits for the chain goes on. The watch's changes up to here are left
// out, so they are acknowledged if there is a session that may wait for that.
func (g *Gateway) release(l *life, r *Result) {
	if r.Rev < l.seen && len(l.placed) > 0 {
		return // an entry came after the directory was read
	}
	if r.Rev > l.seen {
		if l.seen = r.Rev; g.others(l, r) {
			l.foreign = r.Rev
		}
	}
	l.placed, l.closed, l.changes, l.free = make(map[string]int64), make(map[string]bool), nil, true
	if g.Free() {
		g.unpushed()
	}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		g.removed(l, key)
	}
	g.acknowledge(l)
}

// others reports whether a list of sessions has another than the own one.
func (g *Gateway) others(l *life, r *Result) bool {
	for key := range r.KVs {
		if name, session := strings.CutPrefix(key, g.names.session); session && name != l.lease {
			return true
		}
	}
	return false
}
