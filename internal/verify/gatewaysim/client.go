package gatewaysim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// client does one operation after another, each at some gateway.
type client struct {
	w            *world
	number, left int
	known        map[string]int64 // mod_revisions that it saw
}

// expectation is the state known at the beginning of a request.
type expectation struct {
	w       *world
	client  *client // nil: the last reads of a run
	name    string
	key     string
	who     identity
	old     bool                // the answer may be older than what was revealed
	epoch   int                 // restores of etcd until then
	begun   bool                // the gateway has received it
	txn     *core.Txn           // nil: it writes nothing
	direct  func() *core.Result // what etcd does for the call as it is; nil: the transaction, and a read of the key
	floor   int64               // the newest revision that was revealed before
	gateway *gateway            // of the last reads
	tries   int                 // of the last reads, that are left
	header  bool                // the answer shows a header only
	hit     bool                // it comes from the chain
	allowed bool                // the key that was written past the gateways was allowed to be placed again before
	then    func(*core.Reply)   // what follows an answer; nil: the client's operation ends
}

// ask sends a request to a gateway.
func (w *world) ask(g *gateway, send func(id uint64), x *expectation) {
	p := g.process
	g.last++
	id := g.last
	x.allowed = w.allowed
	x.w, x.floor, x.epoch, x.name = w, w.revealed, w.epoch(), fmt.Sprintf("request %d of %s for %s", id, p, x.key)
	if x.client != nil {
		x.who = x.client.who()
	}
	if x.direct == nil {
		x.direct = func() *core.Result {
			r := &core.Request{Txn: x.txn, Show: []string{x.key}}
			if x.txn == nil { // a linearizable read
				r.Get, r.Show = r.Show, nil
			}
			return w.etcd.doAs(x.who, "", r)
		}
	}
	if x.txn != nil {
		w.identities[x.txn.ID], p.writes[x.txn.ID] = x.who, id
	}
	g.asked[id] = x
	w.note("%s begins; %d was revealed", x.name, x.floor)
	w.enter(p, func() {
		x.begun = true
		switch {
		case p.ended:
			p.pass(id)
		case x.who != nobody && x.txn == nil: // etcd decides what it may read
			w.passCall(p, id, x.direct)
		default:
			send(id)
		}
	})
}

func (c *client) think() {
	c.w.After(uint64(c.w.rng.ExpFloat64()*float64(c.w.Think)), c.next)
}

// next does one operation, if a gateway is there.
func (c *client) next() {
	w := c.w
	g := w.gateways[w.rng.IntN(len(w.gateways))]
	if g.process == nil {
		c.think()
		return
	}
	if w.Services && w.rng.IntN(16) == 0 {
		c.service(g)
		return
	}
	key := keyName(w.rng.IntN(w.Keys))
	if w.plan != "" && w.past == "" {
		c.write(g, &expectation{client: c, key: w.plan, txn: c.draw(w.plan)})
		return
	}
	x := &expectation{client: c, key: key}
	if w.rng.IntN(32) == 0 {
		c.readOld(g, x)
		return
	}
	if w.rng.IntN(10) < 7 || key == w.past {
		w.ask(g, func(id uint64) { g.process.read(id, key) }, x)
		return
	}
	x.txn = c.draw(key)
	if w.Auth && w.rng.IntN(16) == 0 {
		x.txn = c.erase(key)
	}
	c.write(g, x)
}

func (c *client) write(g *gateway, x *expectation) {
	c.w.ask(g, func(id uint64) { g.process.write(id, x.txn) }, x)
}

// readOld reads what any member has.
func (c *client) readOld(g *gateway, x *expectation) {
	w, p := c.w, g.process
	x.old = true
	x.direct = func() *core.Result {
		if err := w.etcd.refuses(x.who, new(core.Request)); err != nil {
			return &core.Result{Err: err}
		}
		rev := w.etcd.older()
		r := &core.Result{Rev: rev, KVs: make(map[string]core.KV)}
		if is := w.etcd.at(x.key, rev); is.exists {
			r.KVs[x.key] = is.kv
		}
		return r
	}
	w.ask(g, func(id uint64) { w.passCall(p, id, x.direct) }, x)
}

// erase makes a deletion of everything.
func (c *client) erase(key string) *core.Txn {
	w := c.w
	w.txns++
	all := core.Span{End: "\x00"}
	parts, covers := core.Beside(all, ownPrefix, ownEnd, w.Without)
	if !covers {
		parts = []core.Span{all}
	}
	return &core.Txn{ID: w.txns, Then: []core.Write{{Key: key, Delete: true}}, Spans: parts, Erases: true}
}

// draw makes a transaction: put, delete, compare-and-swap as Kubernetes does it, two keys at once, or with a lease.
func (c *client) draw(key string) *core.Txn {
	w := c.w
	w.txns++
	value := fmt.Sprintf("v%d", w.txns)
	t := &core.Txn{ID: w.txns, Then: []core.Write{{Key: key, Value: value}}}
	switch w.rng.IntN(10) {
	case 0, 1:
		t.Then[0].Delete = true
	case 2, 3, 4:
		t.If = []core.Cond{{Key: key, Kind: core.ModIs, Rev: c.known[key]}}
		if w.txns%2 == 0 {
			t.Else = []core.Write{{Key: key, Value: value + " else", Delete: w.txns%6 == 0}}
		}
	case 5:
		t.If = []core.Cond{{Key: key, Kind: core.ModIs, Rev: c.known[key]}}
		t.Then[0].Delete = true
	case 6:
		if other := keyName(w.rng.IntN(w.Keys)); other != key {
			t.Then = append(t.Then, core.Write{Key: other, Value: value})
		}
	case 7:
		t.Then[0].Leased = true
		if w.Services {
			lease := 1 + w.rng.IntN(w.Keys)
			w.etcd.extendClients(lease)
			w.etcd.clients.how[t.ID] = leasing{lease: lease}
		}
	case 8:
		if w.Services {
			w.etcd.clients.how[t.ID] = leasing{keep: true}
		}
	}
	return t
}

// tooWide reports whether etcd takes the two branches of a transaction only one by one.
func (w *world) tooWide(t *core.Txn) bool { return len(t.If) > 0 && t.ID%3 == 0 }

// unread reports whether there is no room in a transaction for the reads of its keys.
func (w *world) unread(t *core.Txn) bool { return t.ID%5 == 0 }

// gone says that the gateway crashed.
func (x *expectation) gone() {
	x.w.result.Unknown++
	x.end()
}

func (x *expectation) end() {
	c := x.client
	if c == nil {
		return
	}
	if c.left--; c.left == 0 {
		c.w.busy--
		return
	}
	if c.w.busy == 1 && c.left == 2 {
		c.w.planPast()
	}
	c.think()
}

// answered checks a reply.
func (x *expectation) answered(r *core.Reply) {
	w := x.w
	w.note("%s is answered: failure %d, header %d, %v %q at %d, hit %v", x.name, r.Failure, r.Rev, r.Entry.State,
		r.Entry.Value, r.Entry.Rev, x.hit)
	if r.Failure != core.None {
		w.result.Unknown++
		x.end()
		return
	}
	w.result.Ops++
	if x.hit {
		w.result.Hits++
	}
	if i := x.during(r); i < w.epoch() {
		w.lost[i].revealed = max(w.lost[i].revealed, r.Rev)
	} else {
		x.check(r)
		w.revealed = max(w.revealed, r.Rev)
	}
	if x.client != nil && !x.header {
		x.client.known[x.key] = 0
		if r.Entry.State == core.Value {
			x.client.known[x.key] = r.Entry.Rev
		}
	}
	if x.then != nil {
		x.then(r)
		return
	}
	x.end()
}

func (x *expectation) check(r *core.Reply) {
	w := x.w
	is := w.etcd.at(x.key, r.Rev)
	if x.epoch < w.epoch() {
		x.floor = 0
	}
	switch e := &r.Entry; {
	case r.Rev < x.floor && !x.old:
		w.broken("header: %s has header %d, and %d was revealed before", x.name, r.Rev, x.floor)
	case r.Rev > w.etcd.rev:
		w.broken("header: %s has header %d, and etcd is at %d", x.name, r.Rev, w.etcd.rev)
	case x.header, w.mayBeStale(x):
	case is.exists != (e.State == core.Value):
		w.broken("exact: %s shows at %d that the key is %v; it was written at %d", x.name, r.Rev, e.State, is.rev)
	case !shows(r, is):
		w.broken("exact: %s shows at %d the version of %d; the newest is of %d", x.name, r.Rev, e.Rev, is.rev)
	case x.tries == 1 && !x.hit && !is.kv.Leased && !w.isBehind():
		w.broken("slow: %s is not read from the chain after all faults", x.key)
	case x.tries > 1 && !x.hit:
		w.lastRead(x.gateway, x.key, x.tries-1)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
