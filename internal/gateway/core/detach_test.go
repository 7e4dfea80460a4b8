package core

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestDetachBegins: a gateway takes the keys out of the directory if it serves, keys may be placed, and it is not at
// it.
func TestDetachBegins(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Gateway)
		want bool
	}{
		"serving":           {func(*Gateway) {}, true},
		"without a session": {func(g *Gateway) { g.life = nil }, false},
		"not serving":       {func(g *Gateway) { g.life.serving = false }, false},
		"free":              {func(g *Gateway) { g.life.free = true }, false},
		"at it":             {func(g *Gateway) { g.life.freeing = true }, false},
	} {
		g := served("k", instanceOf(10, 0))
		c.edit(g)
		if began := g.Detach(); began != c.want || began != (len(g.Effects()) > 0) {
			t.Errorf("%s: %v", name, began)
		}
	}
}

// TestRestLooks: a gateway looks whether nothing is placed if it serves, knows of no placed key, and is not at it.
func TestRestLooks(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Gateway)
		want bool
	}{
		"nothing placed":    {func(*Gateway) {}, true},
		"without a session": {func(g *Gateway) { g.life = nil }, false},
		"not serving":       {func(g *Gateway) { g.life.serving = false }, false},
		"free":              {func(g *Gateway) { g.life.free = true }, false},
		"at it":             {func(g *Gateway) { g.life.freeing = true }, false},
		"a key":             {func(g *Gateway) { g.life.placed["k"] = instanceOf(10, 0) }, false},
	} {
		g := served("k", instanceOf(10, 0))
		delete(g.life.placed, "k")
		c.edit(g)
		g.Rest()
		if looks := len(g.Effects()) > 0; looks != c.want {
			t.Errorf("%s: looks: %v", name, looks)
		}
	}
}

// TestFree: a gateway is free while nothing is placed, its session is not over, and it lasts.
func TestFree(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Gateway)
		want bool
	}{
		"nothing placed":    {func(*Gateway) {}, true},
		"without a session": {func(g *Gateway) { g.life = nil }, false},
		"placed":            {func(g *Gateway) { g.life.free = false }, false},
		"over":              {func(g *Gateway) { g.life.over = true }, false},
		"may have ended":    {func(g *Gateway) { g.options.Alive = func() bool { return false } }, false},
	} {
		g := served("k", instanceOf(10, 0))
		g.life.free = true
		if c.edit(g); g.Free() != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// TestRelease: a gateway takes the empty directory that it has read, unless an entry has come since. It acknowledges
// the revision if there is another session, which may wait for that.
func TestRelease(t *testing.T) {
	const read = 20
	own, other := SessionPrefix+"g.1", SessionPrefix+"h.1"
	for name, c := range map[string]struct {
		seen     int64
		placed   bool
		sessions []string
		free     bool
		foreign  int64
	}{
		"alone":                          {10, true, []string{own}, true, 0},
		"another session":                {10, true, []string{own, other}, true, read},
		"read at the watch's":            {read, true, []string{own, other}, true, 0},
		"an entry came":                  {read + 1, true, []string{own}, false, 0},
		"an entry came and went":         {read + 1, false, []string{own, other}, true, 0},
		"another key that is no session": {10, true, []string{own, "bit/00"}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := served("k", instanceOf(10, 0))
			l, r := g.life, &Result{Rev: read, KVs: make(map[string]KV)}
			if l.seen = c.seen; !c.placed {
				delete(l.placed, "k")
			}
			for _, key := range c.sessions {
				r.KVs[key] = KV{}
			}
			revealed := false
			g.push.waiting = append(g.push.waiting, waiter{then: func() { revealed = true }})
			g.release(l, r)
			if l.free != c.free || l.foreign != c.foreign || revealed != c.free || l.seen != max(c.seen, read) {
				t.Errorf("free %v, foreign %d, revealed %v, seen %d", l.free, l.foreign, revealed, l.seen)
			}
		})
	}
}

// directory is what etcd has of the gateways' own keys, for a detaching gateway.
type directory struct {
	rev     int64
	kvs     map[string]KV
	changes []Change // of the directory
}

func (d *directory) put(key, value string) {
	d.kvs[key] = KV{Value: value, Create: d.kvs[key].Create, Mod: d.rev}
	d.changed(key, value)
}

func (d *directory) changed(key, value string) {
	if c, is := ChangeOf("", key, value, d.rev); is {
		d.changes = append(d.changes, c)
	}
}

// execute executes a request that names keys, prefixes and revisions only.
func (d *directory) execute(r Request) *Result {
	result := &Result{Held: true, KVs: make(map[string]KV)}
	for _, c := range r.If {
		if c.Kind == ModIs && d.kvs[c.Key].Mod != c.Rev {
			result.Held = false
		}
	}
	if result.Held && len(r.Put)+len(r.Delete) > 0 {
		d.rev++
		for _, p := range r.Put {
			d.put(p.Key, p.Value)
		}
		for _, key := range slices.Sorted(maps.Keys(d.kvs)) {
			if slices.Contains(r.Delete, key) || slices.ContainsFunc(r.Spans, func(s Span) bool { return s.Has(key) }) {
				delete(d.kvs, key)
				d.changed(key, "")
			}
		}
	}
	for key, kv := range d.kvs {
		named := slices.Contains(r.Get, key)
		if named || slices.ContainsFunc(r.List, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			result.KVs[key] = kv
		}
	}
	result.Rev = d.rev
	return result
}

func (d *directory) entries() (names []string) {
	for _, key := range slices.Sorted(maps.Keys(d.kvs)) {
		if strings.HasPrefix(key, DirectoryPrefix) {
			names = append(names, key)
		}
	}
	return names
}

// step has etcd execute what the gateway asks, until it asks for nothing.
func (d *directory) step(g *Gateway) {
	for effects := g.Effects(); len(effects) > 0; effects = g.Effects() {
		for _, e := range effects {
			if call, ok := e.(EtcdCall); ok {
				g.Returned(call.ID, d.execute(call.Request))
			}
		}
	}
}

// twoPlaced is an etcd with two keys placed, and two sessions: of the gateway and of another one.
func twoPlaced() (*Gateway, *directory) {
	instance := instanceOf(10, 0)
	g := served("a", instance)
	g.life.placed["b"], g.life.seen = instance, 12
	return g, &directory{rev: 20, kvs: map[string]KV{
		SessionPrefix + "g.1": {Create: 1, Mod: 1, Lease: 1}, SessionPrefix + "h.1": {Create: 2, Mod: 2, Lease: 2},
		"ack/g.1": {Value: ackOf(1 << 40)}, "ack/h.1": {Value: ackOf(12)}, CountName: {Value: CountOf(2, ""), Mod: 12},
		DirectoryPrefix + "a": {Value: entryOf(instance, "g.1"), Mod: 11},
		DirectoryPrefix + "b": {Value: entryOf(instance, "h.1"), Mod: 12},
	}}
}

// TestDetach: a gateway closes the directory, and removes the entries only when the other session has acknowledged
// that. Nothing is placed meanwhile. Then the gateway is free. So it is if a client of etcd deletes an entry or the
// count: its writes go on to wait for INTENTs until then.
func TestDetach(t *testing.T) {
	for name, begin := range map[string]func(*Gateway, *directory){
		"detached":          func(g *Gateway, _ *directory) { g.Detach() },
		"an entry deleted":  func(_ *Gateway, d *directory) { d.drop(DirectoryPrefix + "a") },
		"the count deleted": func(_ *Gateway, d *directory) { d.drop(CountName) },
		"all deleted":       func(_ *Gateway, d *directory) { d.drop(CountName, DirectoryPrefix+"a", DirectoryPrefix+"b") },
	} {
		t.Run(name, func(t *testing.T) {
			g, d := twoPlaced()
			begin(g, d)
			for range 3 {
				g.DirectoryChanged(d.rev, d.changes)
				g.Tick()
				d.step(g)
			}
			count := d.kvs[CountName]
			if count.Value != closedCount+" " || g.Free() || g.readable("b") != 0 {
				t.Fatalf("count %q, free %v, and another session reads", count.Value, g.Free())
			}
			g.Txn(1, &Txn{Raw: "a client's", Then: []Write{{Key: "a"}}})
			if intent := only[ChainCall](t, g.Effects()); intent.Op.Kind != SetBit {
				t.Fatalf("a write begins with %+v", intent.Op)
			}
			g.Place("c")
			d.step(g)
			if _, placed := d.kvs[DirectoryPrefix+"c"]; placed {
				t.Fatal("a key is placed in a closed directory")
			}
			d.kvs["ack/h.1"] = KV{Value: ackOf(count.Mod)}
			for range 3 {
				g.Tick()
				d.step(g)
				g.DirectoryChanged(d.rev, d.changes)
			}
			if left := d.entries(); !g.Free() || len(left) > 0 || d.kvs[CountName].Value != CountOf(0, "") {
				t.Errorf("free: %v, %q are left, count %q", g.Free(), left, d.kvs[CountName].Value)
			}
		})
	}
}

// drop deletes keys as a client of etcd does.
func (d *directory) drop(keys ...string) {
	d.rev++
	for _, key := range keys {
		delete(d.kvs, key)
		d.changed(key, "")
	}
}

// TestBeginsInADoubtfulDirectory: a gateway that begins compares the entries with their count. If they differ it
// does not serve until the directory was emptied.
func TestBeginsInADoubtfulDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		drop  []string
		count string
		sure  bool
	}{
		"complete":            {nil, CountOf(2, ""), true},
		"an entry deleted":    {[]string{DirectoryPrefix + "a"}, CountOf(2, ""), false},
		"the count deleted":   {[]string{CountName}, "", false},
		"of another timeline": {nil, CountOf(2, "another"), false},
		"closed":              {nil, closedCount + " ", false},
	} {
		g, d := twoPlaced()
		d.kvs[CountName] = KV{Value: c.count, Mod: 12}
		d.drop(c.drop...)
		l := &life{lease: "g.1", create: 1, mod: 1, bound: true, keys: make(map[string]*own), suspects: make(map[string]bool),
			cleaning: make(map[string]bool), placing: make(map[string]bool), ranged: make(map[*write]bool)}
		g.life = l
		g.readDirectory(l, func() { g.acknowledge(l); g.serve(l) })
		if d.step(g); l.serving != c.sure {
			t.Errorf("%s: serves: %v", name, l.serving)
		}
		d.kvs["ack/h.1"] = KV{Value: ackOf(1 << 40)}
		for range 4 {
			g.DirectoryChanged(d.rev, d.changes)
			g.Tick()
			d.step(g)
		}
		if left := len(d.entries()); !l.serving || (left > 0) != c.sure {
			t.Errorf("%s: serves: %v, %d entries are left", name, l.serving, left)
		}
	}
}
