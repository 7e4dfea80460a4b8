package gatewaysim

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// Services of etcd by which a client may have keys written.
const (
	lockService     = "v3lockpb.Lock"
	electionService = "v3electionpb.Election"
)

// turn is a client's use of a lock or an election at one gateway. Its key follows from its lease, as in etcd: so other clients read
// the key before it exists.
type turn struct {
	c     *client
	p     *process
	lease int
	key   string
	mine  int64 // create_revision of the key
	waits int   // looks at the keys of others that are left
}

// service begins a turn, or has a lease revoked.
func (c *client) service(g *gateway) {
	w := c.w
	i := w.rng.IntN(w.Keys)
	t := &turn{c: c, p: g.process, lease: i + 1, key: keyName(i), waits: 4}
	switch w.rng.IntN(5) {
	case 0:
		t.revoke()
		return
	case 1, 2:
		w.etcd.extendClients(t.lease)
		t.call(lockService, "Lock", t.if0(core.Write{Key: t.key, Leased: true}), func(r *core.Reply) {
			t.mine = r.Entry.Create
			t.await()
		})
	default:
		w.etcd.extendClients(t.lease)
		t.campaign()
	}
}

// txn makes a transaction of the turn.
func (t *turn) txn(conds []core.Cond, write core.Write) *core.Txn {
	w := t.c.w
	w.txns++
	w.etcd.clients.how[w.txns] = leasing{lease: t.lease}
	return &core.Txn{ID: w.txns, If: conds, Then: []core.Write{write}}
}

// if0 writes if the key does not exist.
func (t *turn) if0(write core.Write) *core.Txn {
	return t.txn([]core.Cond{{Key: t.key, Kind: core.CreateIs}}, write)
}

// ifMine writes if the key is still that of the turn.
func (t *turn) ifMine(write core.Write) *core.Txn {
	return t.txn([]core.Cond{{Key: t.key, Kind: core.CreateIs, Rev: t.mine}}, write)
}

// value is one that no other write has.
func (t *turn) value() string { return fmt.Sprintf("s%d", t.c.w.txns) }

// call has a method's transaction executed: by the gateway itself, or by etcd.
func (t *turn) call(service, method string, txn *core.Txn, then func(*core.Reply)) {
	w, x := t.c.w, &expectation{client: t.c, key: t.key, then: then}
	if core.ExecutionOf(service, method, w.Without) == core.Served {
		x.txn = txn
		t.ask(func(id uint64) { t.p.write(id, txn) }, x)
		return
	}
	t.pass(x, func() *core.Result { return w.etcd.doAs(x.who, "", &core.Request{Txn: txn, Show: []string{t.key}}) })
}

// ask asks the gateway of the turn, unless it crashed meanwhile.
func (t *turn) ask(send func(id uint64), x *expectation) {
	if t.p.dead {
		x.w = t.c.w
		x.gone()
		return
	}
	t.c.w.ask(t.p.g, send, x)
}

// pass has etcd execute a call as it is.
func (t *turn) pass(x *expectation, do func() *core.Result) {
	x.direct = do
	t.ask(func(id uint64) { t.c.w.passCall(t.p, id, do) }, x)
}

// await waits until no older key is there, gives up, or has the lock: then the key itself is read.
func (t *turn) await() {
	x := &expectation{client: t.c, key: t.key, header: true}
	older := false
	x.then = func(*core.Reply) {
		switch t.waits--; {
		case !older:
			last := &expectation{client: t.c, key: t.key, then: func(*core.Reply) { t.later(t.unlock) }}
			t.ask(func(id uint64) { t.p.read(id, t.key) }, last)
		case t.waits == 0:
			t.unlock()
		default:
			t.later(t.await)
		}
	}
	t.pass(x, func() *core.Result {
		r := t.c.w.etcd.doAs(x.who, "", &core.Request{List: []string{keyPrefix}})
		for _, kv := range r.KVs {
			older = older || kv.Create < t.mine
		}
		return r
	})
}

// later goes on after a pause.
func (t *turn) later(next func()) {
	w := t.c.w
	w.After(w.rng.Uint64N(5*ms), next)
}

func (t *turn) unlock() {
	t.call(lockService, "Unlock", t.txn(nil, core.Write{Key: t.key, Delete: true}), nil)
}

// campaign takes the seat of an election, proclaims another value perhaps, and resigns.
func (t *turn) campaign() {
	value := t.value()
	t.call(electionService, "Campaign", t.if0(core.Write{Key: t.key, Value: value, Leased: true}), func(r *core.Reply) {
		t.mine = r.Entry.Create
		if !r.Succeeded || t.c.w.rng.IntN(2) == 0 {
			t.later(t.proclaim)
		} else {
			t.later(t.resign)
		}
	})
}

func (t *turn) proclaim() {
	write := t.ifMine(core.Write{Key: t.key, Value: t.value(), Leased: true})
	t.call(electionService, "Proclaim", write, func(*core.Reply) { t.later(t.resign) })
}

func (t *turn) resign() {
	t.call(electionService, "Resign", t.ifMine(core.Write{Key: t.key, Delete: true}), nil)
}

// revoke ends a lease of clients through a gateway, which passes the call on.
func (t *turn) revoke() {
	w := t.c.w
	x := &expectation{client: t.c, key: t.key, header: true}
	t.pass(x, func() *core.Result {
		if w.etcd.auth.on && x.who == nobody {
			return &core.Result{Err: errNobody}
		}
		w.etcd.endClients(t.lease, "was revoked")
		return &core.Result{Rev: w.etcd.rev}
	})
}

// passCall sends a client's call on to etcd. The answer waits until it may be revealed.
func (w *world) passCall(p *process, id uint64, do func() *core.Result) {
	p.flying[id] = true
	w.sendEtcd(p, do, func(r *core.Result) {
		delete(p.flying, id)
		if p.ended {
			p.show(id, r)
			return
		}
		if r.Unknown || r.Err != nil {
			w.reply(p, &core.Reply{ID: id, Failure: core.Unknown, Err: r.Err})
			return
		}
		p.passed[id] = r
		p.reveal(core.Answers, r.Rev, func() { w.reveal(p, id) })
	})
}

// reveal answers a call that was passed on.
func (w *world) reveal(p *process, id uint64) {
	r := p.passed[id]
	delete(p.passed, id)
	reply := &core.Reply{ID: id, Rev: r.Rev, Succeeded: r.Succeeded, Entry: core.Entry{State: core.Absent}}
	if x := p.g.asked[id]; x != nil {
		if kv, ok := r.KVs[x.key]; ok {
			reply.Entry = core.Entry{State: core.Value, Rev: kv.Mod, Create: kv.Create, Version: kv.Version, Value: kv.Value}
		}
	}
	w.reply(p, reply)
}
