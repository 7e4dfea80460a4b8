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
// wait. First the directory is closed: every session acknowledges that it reads no object any more, while all go on
// with INTENTs. Only then the entries go. Gateways that see a closed directory do the same, so that one of them
// finishes. Detach reports whether it has begun.
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
	if l == nil || !l.serving || l.free || l.freeing || l.closed || len(l.placed) > 0 {
		return
	}
	l.freeing = true
	look := Request{Get: []string{g.names.count}, List: []string{g.names.directory, g.names.session}}
	g.surely(l, look, func(r *Result) {
		l.freeing = false
		if !l.over && len(g.listed(r)) == 0 && g.complete(r) {
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

// close closes the directory, unless it is closed.
func (g *Gateway) close(l *life) {
	g.surely(l, Request{Get: []string{g.names.count}}, func(r *Result) {
		kv := r.KVs[g.names.count]
		if l.over {
			return
		}
		if c, ok := g.parseCount(kv); ok && c.closed {
			g.awaitClosed(l, kv.Mod)
			return
		}
		request := Request{
			If:  append(g.inTimeline(), Cond{Key: g.names.count, Kind: ModIs, Rev: kv.Mod}),
			Put: []Put{{Key: g.names.count, Value: closedCount + " " + g.timeline}}, Get: []string{g.names.count},
		}
		g.surely(l, request, func(r *Result) {
			if r.KVs[g.names.count].Mod == kv.Mod { // another timeline; the gateway will notice
				l.freeing = false
				return
			}
			g.close(l)
		})
	})
}

// awaitClosed waits until all sessions have acknowledged that the directory is closed, at a revision.
func (g *Gateway) awaitClosed(l *life, closed int64) {
	g.acknowledged(l, closed, nil, func(yes bool, _ *Result) {
		switch {
		case l.over:
		case yes:
			g.emptied(l, closed)
		default:
			l.polls = append(l.polls, func() { g.awaitClosed(l, closed) })
		}
	})
}

// emptied removes the entries of the directory, unless it was opened since it was closed.
func (g *Gateway) emptied(l *life, closed int64) {
	entries := Span{g.names.directory, Behind(g.names.directory)}
	request := Request{
		If:    append(g.inTimeline(), Cond{Key: g.names.count, Kind: ModIs, Rev: closed}),
		Spans: []Span{entries}, Put: []Put{{Key: g.names.count, Value: CountOf(0, g.timeline)}},
		List: []string{g.names.session},
	}
	g.surely(l, request, func(r *Result) {
		l.freeing = false
		if !l.over && r.Held {
			g.release(l, r)
		}
	})
}

// release takes an empty directory, as it was read. What waits for the chain goes on. The watch's changes up to here are left
// out, so they are acknowledged if there is a session that may wait for that.
func (g *Gateway) release(l *life, r *Result) {
	if r.Rev < l.seen && (len(l.placed) > 0 || l.closed) {
		return // the directory has changed after it was read
	}
	if r.Rev > l.seen {
		if l.seen = r.Rev; g.others(l, r) {
			l.foreign = r.Rev
		}
	}
	l.empty()
	if l.free = true; g.Free() {
		g.unpushed()
	}
	g.unasked(l)
	g.acknowledge(l)
	g.serve(l)
}

// unasked ends the waits of writes for INTENTs of objects that the directory does not name any more.
func (g *Gateway) unasked(l *life) {
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		g.removed(l, key)
	}
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
