package core

import (
	"strconv"
	"strings"
)

// CountName is the key of the directory's count. The directory is the entries of placed keys, below
// [DirectoryPrefix]. The count says how many there are, and in which timeline. Every change that a gateway makes writes
// it, in the same transaction, and names the revision that it read of it as a condition. An entry that is gone
// without that was deleted by a client of etcd. Who has a watch sees it there, and who reads the directory in the
// number.
const CountName = "directory.count"

// DirectorySpan is the range of what a gateway watches of the directory.
func DirectorySpan(prefix string) Span {
	return Span{From: prefix + CountName, End: Behind(prefix + DirectoryPrefix)}
}

// Change is a change of the directory: of an entry, or of the count.
type Change struct {
	Rev   int64
	Key   string // that is placed
	Count bool   // in place of Key
	Value string // of the entry, or the count; empty: it is gone
}

// ChangeOf makes the change of a key in [DirectorySpan]. It returns false for those that say nothing else than
// others do.
func ChangeOf(prefix, key, value string, rev int64) (Change, bool) {
	name := strings.TrimPrefix(key, prefix)
	placed, entry := strings.CutPrefix(name, DirectoryPrefix)
	return Change{Rev: rev, Key: placed, Count: name == CountName, Value: value}, entry || name == CountName
}

// count is the value of the key of the count.
type count struct {
	entries  int
	closed   bool // the directory is being emptied: no object is read, and no key is placed
	timeline string
	mod      int64 // of the key
}

const (
	closedCount = "closed"
	fewest      = "1" // the count of no entries is below, by bytes, and every other is not
)

// CountOf is how the count of a directory is written.
func CountOf(entries int, timeline string) string { return strconv.Itoa(entries) + " " + timeline }

// parseCount reads a count. It returns false for what no gateway of the timeline wrote.
func (g *Gateway) parseCount(kv KV) (c count, ok bool) {
	text, timeline, ok := strings.Cut(kv.Value, " ")
	c = count{timeline: timeline, mod: kv.Mod, closed: text == closedCount}
	if !c.closed {
		n, err := strconv.Atoi(text)
		c.entries, ok = n, ok && err == nil && n >= 0
	}
	return c, ok && (timeline == g.timeline || !g.on(Timeline))
}

// open reads the count of a result. It returns false if no entry may be changed now.
func (g *Gateway) open(r *Result) (c count, ok bool) {
	c, ok = g.parseCount(r.KVs[g.names.count])
	return c, ok && !c.closed
}

// InTimeline reports whether the values of the keys [TimelineName] and [CountName] are those of the gateway's timeline.
// If only the first is, somebody deleted it, and gateways of another timeline may answer from objects.
func (g *Gateway) InTimeline(timeline, count string) bool {
	c, ok := g.parseCount(KV{Value: count})
	return timeline == g.timeline && (ok && !c.closed || !g.on(Counted))
}

// complete reports whether a result, of all entries and the count, shows the directory as gateways left it, and open.
func (g *Gateway) complete(r *Result) bool {
	c, ok := g.open(r)
	return ok && (c.entries == len(g.listed(r)) || !g.on(Counted))
}

// recount adds to a change of entries what it changes of the count: as many are added, and the count is as it was
// read.
func (g *Gateway) recount(r *Request, was count, added int) {
	r.If = append(r.If, Cond{Key: g.names.count, Kind: ModIs, Rev: was.mod})
	r.Put = append(r.Put, Put{Key: g.names.count, Value: CountOf(was.entries+added, g.timeline)})
	r.Get = append(r.Get, g.names.count)
}

// DirectoryChanged takes all changes of the directory up to a revision.
func (g *Gateway) DirectoryChanged(rev int64, changes []Change) {
	l := g.life
	if l == nil || l.placed == nil || rev <= l.seen {
		return
	}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Rev == changes[0].Rev {
			n++
		}
		if changes[0].Rev > l.seen {
			g.changed(l, changes[:n])
		}
		changes = changes[n:]
	}
	l.seen = rev
	g.unasked(l)
	g.acknowledge(l)
	g.serve(l)
}

// changed takes the changes of one revision. Those that no gateway made leave the keys placed: other gateways may
// answer from their objects until their watches arrive. So writes go on with INTENTs, and no object is read, until
// all gateways have emptied the directory.
func (g *Gateway) changed(l *life, changes []Change) {
	counted := !g.on(Vanished)
	for _, c := range changes {
		if c.Count {
			counted = g.counted(l, c) || counted
		}
	}
	if !counted {
		l.closed, l.unsure, l.free = true, true, false
	}
	for _, c := range changes {
		if c.Count || c.Value == "" && !counted {
			continue
		}
		if instance := l.enter(c.Key, c.Value); instance == 0 {
			continue
		}
		l.changes = append(l.changes, c)
		if Owner(c.Value) != l.lease {
			l.foreign = c.Rev
		}
	}
}

// counted takes another count, and reports whether a gateway wrote it.
func (g *Gateway) counted(l *life, c Change) bool {
	now, ok := g.parseCount(KV{Value: c.Value, Mod: c.Rev})
	switch {
	case !ok:
		return false
	case now.closed:
		l.closed, l.free, l.foreign = true, false, c.Rev
	case now.entries == 0:
		l.empty()
	}
	return true
}

// empty takes all keys out: the directory has no entry, and whoever wrote that knew of all that clients of etcd
// deleted.
func (l *life) empty() {
	l.placed, l.closed, l.unsure, l.known, l.changes = make(map[string]int64), false, false, true, nil
}

// Unsure reports whether a client of etcd changed the directory, and it is not empty since.
func (g *Gateway) Unsure() bool { return g.life != nil && g.life.unsure }
