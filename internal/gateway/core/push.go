package core

// pushing is how the chain learns revisions: one push at a time, which carries the newest.
type pushing struct {
	done    int64 // the chain has this revision, or lost it and will get a newer one
	epoch   uint64
	busy    bool
	waiting []waiter
}

type waiter struct {
	rev  int64
	life *life // in which it began to wait
	then func()
}

// pushed calls then when the chain has a revision of at least rev. Replies that reveal a revision wait for it.
func (g *Gateway) pushed(rev int64, then func()) {
	if g.Free() {
		g.unpushed() // in order, which a watch needs
		then()
		return
	}
	w := waiter{rev, g.life, then}
	if rev <= g.push.done && g.timely(w) {
		then()
		return
	}
	if !g.on(Push) { // the push is under way, and not waited for
		then()
		w.then = func() {}
	}
	g.push.waiting = append(g.push.waiting, w)
	g.pushNewest()
}

// timely reports whether a revision may be pushed, and be shown when the chain has it. The revision object must be that
// of etcd's history, and must not get a revision of another: otherwise a gateway of the new timeline shows a lower one,
// or one of this timeline a higher one than etcd has. So the session lasts, and has begun before the message arrived or
// at its revision or later. Without such a session, a member of etcd must have had the timeline at that revision or
// later. The directory is of that timeline too, so no session of another one lasts.
func (g *Gateway) timely(w waiter) bool {
	l := g.life
	switch {
	case !g.on(PushInTime):
		return true
	case w.rev <= g.looks.same && g.recent():
		return true
	case l == nil || l.create == 0 || l.over || g.options.Lasts != nil && !g.options.Lasts():
		return false
	case !l.known && g.on(Counted):
		return false
	}
	return w.life == l || w.rev <= l.create
}

// Timely reports whether the chain may be asked, or asked again, to raise the revision object to a revision.
func (g *Gateway) Timely(rev int64) bool {
	return g.timely(waiter{rev: rev, life: g.life})
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
	return m == Events && !g.on(PushBeforeWatch) || g.Free() || g.unplaced(rev) || rev <= g.push.done && g.Timely(rev)
}

// Reveal asks for [Revealed] when the chain has a revision that the caller's message shows.
func (g *Gateway) Reveal(id uint64, rev int64) { g.pushed(rev, func() { g.emit(Revealed{id}) }) }

func (g *Gateway) pushNewest() {
	p := &g.push
	if p.busy {
		return
	}
	if rev := g.Newest(); rev > 0 {
		p.busy = true
		g.chain(Op{Kind: Max, Epoch: p.epoch, Rev: rev}, g.pushAnswered)
	}
}

// Newest is the newest revision that waits for a push and may be pushed; 0: none is. A push that has not left yet may
// carry it too.
func (g *Gateway) Newest() (rev int64) {
	for _, w := range g.push.waiting {
		if w.rev > rev && g.timely(w) {
			rev = w.rev
		}
	}
	return rev
}

func (g *Gateway) pushAnswered(a Answer) {
	p := &g.push
	p.busy, p.epoch = false, a.Epoch
	switch a.Status {
	case OK:
		p.done = max(p.done, a.Rev)
		g.showPushed()
	case Miss:
		g.makeRevision(a.Epoch)
		return
	case Away: // the session lasts no more: [Gateway.Tick] asks again when another does
		return
	}
	g.pushNewest()
}

// showPushed lets go on what waits for a revision that the chain has.
func (g *Gateway) showPushed() {
	p := &g.push
	waiting := p.waiting
	p.waiting = nil
	for _, w := range waiting {
		if w.rev <= p.done && g.timely(w) {
			w.then()
		} else {
			p.waiting = append(p.waiting, w)
		}
	}
}

// pushAgain goes on with what waited until it may be pushed, or shown.
func (g *Gateway) pushAgain() {
	g.showPushed()
	g.pushNewest()
}

// makeRevision makes the revision object of a shard that lost it. Its revision is read after its epoch was learnt, so
// it is not below any that was revealed before the loss.
func (g *Gateway) makeRevision(epoch uint64) {
	g.push.busy = true
	g.surely(nil, Request{}, func(r *Result) {
		g.chain(Op{Kind: Max, Epoch: epoch, Rev: r.Rev, Make: true}, g.pushAnswered)
	})
}
