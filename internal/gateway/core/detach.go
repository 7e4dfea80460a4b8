package core

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Free reports whether nothing is placed for certain. Then no gateway answers from the chain, and a revision may be revealed without
// a push. It ends before the gateway acknowledges an entry of the directory, or with the session, for then no acknowledgement is
// waited for.
func (g *Gateway) Free() bool { return g.life != nil && g.life.free && !g.life.over && g.alive() }

// Detach takes all keys out of the directory without the chain: for a gateway that cannot reach it, whose pushes and INTENTs would
// wait. First the entries are closed: every session acknowledges that it does not read these keys from the chain any more, while all
// go on with INTENTs. Only then the entries go.
func (g *Gateway) Detach() {
	l := g.life
	if l == nil || !l.serving || g.Free() || l.freeing {
		return
	}
	l.freeing = true
	g.close(l)
}

// Rest looks whether nothing is placed, so that the gateway may become free.
func (g *Gateway) Rest() {
	l := g.life
	if l == nil || !l.serving || l.free || l.freeing || len(l.placed) > 0 {
		return
	}
	l.freeing = true
	g.surely(l, Request{List: []string{g.names.directory}}, func(r *Result) {
		l.freeing = false
		if !l.over && len(r.KVs) == 0 {
			g.release(l, r.Rev)
		}
	})
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
				If: []Cond{{Key: key, Kind: ModIs, Rev: kv.Mod}}, Put: []Put{{key, kv.Value + closedMark, false}},
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
	g.acknowledged(l, newest, func(yes bool) {
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
	g.surely(l, Request{List: []string{g.names.directory}}, func(r *Result) {
		if l.over {
			return
		}
		if len(r.KVs) == 0 {
			l.freeing = false
			g.release(l, r.Rev)
			return
		}
		for _, kv := range r.KVs {
			if _, closed := parseEntry(kv.Value); !closed || kv.Mod > newest {
				g.close(l)
				return
			}
		}
		left := len(r.KVs)
		for _, key := range slices.Sorted(maps.Keys(r.KVs)) {
			request := Request{
				If: []Cond{{Key: key, Kind: ModIs, Rev: r.KVs[key].Mod}}, Delete: []string{key}, Put: []Put{{g.names.detached, "", false}},
			}
			g.surely(l, request, func(*Result) {
				if left--; left == 0 {
					g.empty(l, newest)
				}
			})
		}
	})
}

// release takes an empty directory, as it was read at a revision. What waits for the chain goes on.
func (g *Gateway) release(l *life, rev int64) {
	if rev < l.seen && len(l.placed) > 0 {
		return // an entry came after the directory was read
	}
	l.placed, l.closed, l.changes, l.seen, l.free = make(map[string]int64), make(map[string]bool), nil, max(l.seen, rev), true
	if g.Free() {
		g.unpushed()
	}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		under := slices.Collect(maps.Keys(l.keys[key].under))
		slices.SortFunc(under, func(a, b *write) int { return cmp.Compare(a.id, b.id) })
		for _, w := range under {
			if w.asked > 0 && !w.rid {
				w.rid = true
				g.commit(w)
			}
		}
	}
	g.acknowledge(l)
}

// acknowledged asks whether every session has acknowledged a revision of the directory, or has ended.
func (g *Gateway) acknowledged(l *life, rev int64, then func(yes bool)) {
	g.surely(l, Request{List: []string{g.names.session, g.names.ack}}, func(r *Result) {
		if l.over {
			then(false)
			return
		}
		for key := range r.KVs {
			name, session := strings.CutPrefix(key, g.names.session)
			if !session {
				continue
			}
			if acked, _ := strconv.ParseInt(r.KVs[g.names.ack+name].Value, 10, 64); acked < rev {
				then(false)
				return
			}
		}
		then(true)
	})
}
