package core

// pushing is how the chain learns revisions: one push at a time, which carries the newest.
type pushing struct {
	done    int64 // the chain has this revision, or lost it and will get a newer one
	shard   uint64
	busy    bool
	waiting []waiter
}

type waiter struct {
	rev  int64
	then func()
}

// pushed calls then when the chain has a revision of at least rev. Replies that reveal a revision wait for it.
func (g *Gateway) pushed(rev int64, then func()) {
	if g.Free() {
		g.unpushed() // in order, which a watch needs
		then()
		return
	}
	if rev <= g.push.done {
		then()
		return
	}
	if !g.on(Push) { // the push is under way, and not waited for
		then()
		then = func() {}
	}
	g.push.waiting = append(g.push.waiting, waiter{rev, then})
	g.pushNewest()
}

// unpushed lets go on what waits for a push.
func (g *Gateway) unpushed() {
	waiting := g.push.waiting
	g.push.waiting = nil
	for _, w := range waiting {
		w.then()
	}
}

// Message says what a message of etcd to a client is.
type Message uint8

// The messages.
const (
	Answers Message = iota // the answer to a call
	Events                 // events of a watch
)

// Shows reports whether a message with a revision may be shown to a client now: the chain has the revision, or needs none.
// Otherwise [Gateway.Reveal] asks for that. The messages of a stream are shown one after the other.
func (g *Gateway) Shows(m Message, rev int64) bool {
	return m == Events && !g.on(PushBeforeWatch) || g.Free() || rev <= g.push.done || g.unplaced(rev)
}

// Reveal asks for [Revealed] when the chain has a revision that the caller's message shows.
func (g *Gateway) Reveal(id uint64, rev int64) { g.pushed(rev, func() { g.emit(Revealed{id}) }) }

func (g *Gateway) pushNewest() {
	p := &g.push
	if p.busy || len(p.waiting) == 0 {
		return
	}
	p.busy = true
	g.chain(Op{Kind: Max, Shard: p.shard, Rev: g.Newest()}, g.pushAnswered)
}

// Newest is the newest revision that waits for a push; 0: none does. A push that has not left yet may carry it too.
func (g *Gateway) Newest() (rev int64) {
	for _, w := range g.push.waiting {
		rev = max(rev, w.rev)
	}
	return rev
}

func (g *Gateway) pushAnswered(a Answer) {
	p := &g.push
	p.busy, p.shard = false, a.Shard
	switch a.Status {
	case OK:
		p.done = max(p.done, a.Rev)
		waiting := p.waiting
		p.waiting = nil
		for _, w := range waiting {
			if w.rev <= p.done {
				w.then()
			} else {
				p.waiting = append(p.waiting, w)
			}
		}
	case Miss:
		g.makeRevision(a.Shard)
		return
	}
	g.pushNewest()
}

// makeRevision makes the revision object of a shard that lost it. Its revision is read after the shard's generation was learnt, so it
// is not below any that was revealed before the loss.
func (g *Gateway) makeRevision(shard uint64) {
	g.push.busy = true
	g.surely(nil, Request{}, func(r *Result) {
		g.chain(Op{Kind: Max, Shard: shard, Rev: r.Rev, Make: true}, g.pushAnswered)
	})
}
