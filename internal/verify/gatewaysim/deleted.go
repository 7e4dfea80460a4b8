package gatewaysim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// nextDeletion plans that a client of etcd deletes keys of the gateways: of one session or of all, while their leases
// last, or of the directory. Gateways notice the first when they prove their sessions, since their watches may be
// late. Most often the gateway is cut off from etcd, and others from the chain, so that these do without it.
func (w *world) nextDeletion(rng *rand.Rand) {
	pause := uint64(w.Lease)
	if w.Bits || w.Entries {
		pause /= 4
	}
	w.After(uint64(rng.ExpFloat64()*float64(pause)), func() {
		if w.calm {
			return
		}
		victim := w.gateways[rng.IntN(len(w.gateways))]
		if p := victim.process; p != nil && w.Now >= w.etcd.away {
			if w.Entries {
				w.awaitCached(rng)
				return
			}
			w.deleteKeys(rng, p)
		}
		w.nextDeletion(rng)
	})
}

func (w *world) deleteKeys(rng *rand.Rand, p *process) {
	kinds := [][]string{
		{core.SessionPrefix}, {core.SessionPrefix, "ack/", "bit/"}, {core.SessionPrefix, "ack/", "bit/", "began"}, {"ack/"}, {"bit/"},
	}[rng.IntN(5)]
	lease := p.core.Lease()
	if rng.IntN(4) == 0 {
		lease = ""
	}
	if w.Bits {
		p.bitless = etcdTimeout/4 + rng.Uint64N(etcdTimeout)
	} else if w.etcd.deleteOwn(kinds, lease) {
		w.result.Deleted++
		w.note("a client of etcd deletes %v, of session %q", kinds, lease)
		w.separate(rng, p.g)
	}
}

// awaitCached deletes entries as soon as a gateway reads a key from the chain.
func (w *world) awaitCached(rng *rand.Rand) {
	if w.calm {
		return
	}
	p, key := w.anyReader(rng)
	if p == nil {
		w.After(ms, func() { w.awaitCached(rng) })
		return
	}
	if rng.IntN(4) > 0 || !w.writeBehind(rng, p, key) {
		w.deleteEntries(rng, p, key)
	}
	w.nextDeletion(rng)
}

// anyReader draws a process that reads a key from the chain while etcd answers; nil: there is none.
func (w *world) anyReader(rng *rand.Rand) (p *process, key string) {
	if w.Now < w.etcd.away {
		return nil, ""
	}
	for _, i := range rng.Perm(len(w.gateways)) {
		if p := w.gateways[i].process; p != nil {
			if key := p.anyCached(rng); key != "" {
				return p, key
			}
		}
	}
	return nil, ""
}

// anyCached draws a key that the process reads from the chain; empty: there is none.
func (p *process) anyCached(rng *rand.Rand) string {
	for _, i := range rng.Perm(p.g.w.Keys) {
		if key := keyName(i); p.hits(key) {
			return key
		}
	}
	return ""
}

// hits reports whether the process reads a key from the chain.
func (p *process) hits(key string) bool {
	read := core.Op{Kind: core.ReadObject, Key: key}
	instance, _ := p.core.BeginRead(key)
	a := p.g.w.shardOf(&read).of(p.timeline).Do(&read)
	return p.alive() && instance != 0 && a.Status == core.OK && a.Object.Instance == instance && a.Object.Readable()
}

// deleteEntries has a client of etcd delete the entry of a key that a gateway reads from the chain, all entries, their
// count, all of that, the timeline, or all keys of the gateways. Most often the gateway is cut off from etcd, and goes
// on to read. All others begin anew, or none.
func (w *world) deleteEntries(rng *rand.Rand, p *process, key string) {
	kinds := []string{core.DirectoryPrefix + key}
	switch rng.IntN(8) {
	case 0:
		kinds = []string{core.CountName}
	case 1:
		kinds = []string{"directory"}
	case 2:
		kinds = []string{core.DirectoryPrefix}
	case 3:
		kinds = []string{core.TimelineName}
	case 4, 5:
		kinds = []string{""}
	}
	if !w.etcd.deleteOwn(kinds, "") {
		return
	}
	w.result.Vanished++
	w.note("a client of etcd deletes %v", kinds)
	if rng.IntN(4) > 0 {
		w.cutOff(rng, p.g)
	}
	anew := rng.IntN(2) == 0
	for _, g := range w.gateways {
		if anew && g != p.g && g.process != nil {
			g.unnamed = w.Now + rng.Uint64N(uint64(w.Lease))
			g.process.restart()
		}
	}
	for range 10 {
		w.After(rng.Uint64N(30*ms), func() { w.writeElsewhere(rng, p.g, key) })
	}
	w.readOften(rng, p, key)
}

// readOften has clients read a key at a process.
func (w *world) readOften(rng *rand.Rand, p *process, key string) {
	for range 10 {
		w.After(rng.Uint64N(60*ms), func() {
			if p.g.process == p && !w.calm {
				w.lastRead(p.g, key, 0)
			}
		})
	}
}

// writeElsewhere has a client that does nothing else write a key at another gateway than one.
func (w *world) writeElsewhere(rng *rand.Rand, not *gateway, key string) {
	for _, i := range rng.Perm(len(w.gateways)) {
		if g := w.gateways[i]; g != not && g.process != nil && !w.calm {
			w.txns++
			t := &core.Txn{ID: w.txns, Then: []core.Write{{Key: key, Value: fmt.Sprintf("v%d", w.txns)}}}
			w.ask(g, func(id uint64) { g.process.write(id, t) }, &expectation{key: key, txn: t})
			return
		}
	}
}

// cutOff cuts a gateway off from etcd for a while.
func (w *world) cutOff(rng *rand.Rand, g *gateway) {
	g.cutEtcd = max(g.cutEtcd, w.Now+uint64(w.Lease)/2+rng.Uint64N(uint64(w.Lease)))
}

// deleteBit has a client of etcd delete the bit of a gateway while a write is under way to etcd, if that is planned. It
// returns how long that takes.
func (w *world) deleteBit(p *process, c *core.EtcdCall) (slow uint64) {
	if c.Request.Txn == nil || c.Request.Part == core.Outcome || p.bitless == 0 {
		return 0
	}
	slow, p.bitless = p.bitless, 0
	if w.etcd.deleteOwn([]string{"bit/"}, c.Lease) {
		w.result.Deleted++
		w.note("a client of etcd deletes the bit of session %q", c.Lease)
	}
	return slow
}

// separate cuts a gateway off from etcd for a while, and the others from the chain.
func (w *world) separate(rng *rand.Rand, victim *gateway) {
	if rng.IntN(4) > 0 {
		w.cutOff(rng, victim)
	}
	if rng.IntN(4) == 0 {
		return
	}
	for _, g := range w.gateways {
		if g != victim {
			g.cutChain = max(g.cutChain, w.Now+patience+rng.Uint64N(uint64(w.Lease)))
		}
	}
}

// deleteOwn deletes the gateways' keys of some kinds: those of a session, or all. It reports whether there was one.
func (e *etcd) deleteOwn(kinds []string, lease string) bool {
	var deleted []string
	for _, key := range sortedKeys(e.keys) {
		own, is := strings.CutPrefix(key, ownPrefix)
		if !is {
			continue
		}
		kv := e.keys[key]
		named := slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(own, kind) })
		if named && (lease == "" || kv.Lease == 0 || kv.Lease == e.numbers[lease]) {
			deleted = append(deleted, key)
		}
	}
	next, changed := e.rev+1, false
	for _, key := range deleted {
		changed = e.drop(next, key) || changed
	}
	if changed {
		e.next()
		e.w.changed()
	}
	return changed
}

// proveKeys goes on if etcd has the keys of a session.
func (w *world) proveKeys(p *process, lease string, then func()) {
	if !w.Deletes {
		then()
		return
	}
	proof := p.core.Prove(lease)
	read := func() *core.Result { return w.etcd.do("", &core.Request{Get: proof.Keys}) }
	question(w, p, read, func(r *core.Result) {
		if p.core.Proved(proof, r) {
			then()
		}
	})
}

// putOwn writes a key of the gateways, under the lease of a session if it belongs to one.
func (e *etcd) putOwn(rev int64, p *core.Put, lease string) {
	if p.Lease != 0 {
		lease, _ = e.numbered(p.Lease)
	}
	if p.Session || p.Lease != 0 {
		e.number = e.numbers[lease]
		if !slices.Contains(e.owned[lease], p.Key) {
			e.owned[lease] = append(e.owned[lease], p.Key)
		}
	}
	e.put(rev, p.Key, p.Value, false)
	e.number = 0
}

// numbered returns the lease of a number, if it has not ended.
func (e *etcd) numbered(number int64) (lease string, is bool) {
	for lease, n := range e.numbers {
		if n == number {
			return lease, e.leases[lease] != 0 && !e.dead[lease]
		}
	}
	return "", false
}

// noLease reports whether a request puts a key under the lease of another session that has ended.
func (e *etcd) noLease(r *core.Request) bool {
	return slices.ContainsFunc(r.Put, func(p core.Put) bool {
		_, is := e.numbered(p.Lease)
		return p.Lease != 0 && !is
	})
}

// living lists the sessions' leases that have not ended: none in worlds with restores, where no keys are deleted.
// Gateways would wait for the leases of the history that was lost, which hides what the rule push-in-time prevents.
func (e *etcd) living() (numbers []int64) {
	if e.w.Restores {
		return nil
	}
	for _, lease := range sortedKeys(e.leases) {
		if !e.dead[lease] {
			numbers = append(numbers, e.numbers[lease])
		}
	}
	return numbers
}

// revoke ends the lease of a session that its gateway does not want any more.
func (e *etcd) revoke(lease string) {
	if e.leases[lease] != 0 && e.w.Now >= e.away {
		e.end(lease)
	}
}
