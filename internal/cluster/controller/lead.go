package controller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

const (
	// askOn is how long controllers that have not answered are asked on after a majority has.
	askOn = time.Second
	// resignWithin bounds the attempt to give up leadership.
	resignWithin = time.Second
)

// leading is one term of this controller as the leader. The goroutine of run owns the reconfig.Leader.
type leading struct {
	c          *Controller
	inbox      *inbox
	leadership *store.Leadership
	leader     *reconfig.Leader
	known      bool // the news that this controller leads has come from etcd

	ctx     context.Context // ends with the term
	running sync.WaitGroup  // goroutines of effects
}

// lead does a leader's work until the leadership is over or ctx ends.
func (c *Controller) lead(ctx context.Context, l *store.Leadership) {
	ctx, cancel := context.WithCancel(ctx)
	t := &leading{c: c, inbox: newInbox(), leadership: l, ctx: ctx}
	t.leader = reconfig.NewLeader(l.Term, &l.State, c.leaderOptions(), c.now())
	c.log.Info("this controller leads", "term", l.Term, "change", l.State.Change)
	c.metrics.elections.Inc()
	c.setTerm(t)
	for _, a := range c.nodes.all() { // they registered with a leader before this one
		t.register(a.registration)
	}
	t.begin(t.balance)
	t.begin(t.keepKeys)
	t.begin(t.keepControllers)
	t.begin(t.followMachines)
	t.run()
	c.setTerm(nil)
	cancel()
	t.running.Wait()
	if t.excluded() {
		c.resign(l)
	}
	c.log.Info("this controller leads no more", "term", l.Term)
}

// setTerm records whether this controller leads, and wakes all waiters.
func (c *Controller) setTerm(t *leading) {
	c.term.Store(t)
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	c.view.tell()
}

func (t *leading) run() {
	rest := time.NewTimer(t.leader.Rest())
	defer rest.Stop()
	in := arrivals{heartbeats: make(map[reconfig.NodeID]reconfig.Heartbeat), lives: make(map[reconfig.NodeID]uint64)}
	for !t.over() {
		select {
		case <-t.ctx.Done():
			return
		case <-t.inbox.ready:
		case <-rest.C:
		}
		begun := t.c.now()
		in = t.inbox.take(in)
		for range in.asked {
			t.leader.Asked(begun)
		}
		for id, incarnation := range in.lives {
			t.leader.Alive(begun, id, incarnation)
		}
		for _, b := range in.heartbeats {
			t.leader.Heartbeat(begun, b)
		}
		for _, call := range in.calls {
			call(t.leader)
		}
		// Messages go before the time, so that a controller that was held up does not suspect nodes for its own delay.
		t.leader.Tick(t.c.now())
		t.carryOut()
		t.c.metrics.step.Observe((t.c.now() - begun).Seconds())
		rest.Reset(t.leader.Rest())
	}
}

// over reports whether this controller has lost leadership. A leader that is cut off from etcd continues: it can make no
// change durable, but it still answers questions about the state.
func (t *leading) over() bool {
	led, _ := t.c.view.led()
	t.known = t.known || led.Term == t.leadership.Term
	return t.leader.Ended() || led.Term > t.leadership.Term || t.known && led.Term == 0 || t.excluded()
}

// excluded reports whether this controller's own change removed it from the controllers. Nodes leave it, so it cannot lead.
func (t *leading) excluded() bool { return !t.leader.State().Controllers.Has(t.c.options.Address) }

// resign lets another controller lead at once.
func (c *Controller) resign(l *store.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), resignWithin)
	defer cancel()
	if err := l.Resign(ctx); err != nil {
		c.log.Warn("this controller was removed, and could not tell etcd that it leads no more: another leads a little later", "because", err)
	}
}

// carryOut starts the leader's effects. It does not block.
func (t *leading) carryOut() {
	for _, effect := range t.leader.Effects() {
		switch e := effect.(type) {
		case reconfig.Store:
			t.begin(func() { t.store(e.Change) })
		case reconfig.Send:
			t.c.nodes.order(e.Node, &e.Order)
		case reconfig.LeaseWait:
			t.awaitLeases(e)
		case reconfig.Place:
			t.begin(func() {
				plan := e.Plan()
				t.inbox.call(func(l *reconfig.Leader) { l.Planned(t.c.now(), e.Number, plan) })
			})
		case reconfig.Probe:
			t.c.nodes.probe(&e)
		case reconfig.Release:
			t.c.nodes.release(e)
		case reconfig.Event:
			t.c.log.Info(e.Text)
		}
	}
}

// begin does something beside the leader.
func (t *leading) begin(do func()) { t.running.Go(do) }

func (t *leading) store(c reconfig.Change) {
	start := t.c.now()
	err := t.leadership.Apply(t.ctx, c)
	switch {
	case err == nil:
		took := t.c.now() - start
		t.c.metrics.stored(&c, took)
		if took > t.c.view.formed().Settings.Suspect {
			t.c.slow.Store(&slowness{took, t.c.now()})
		}
	case t.ctx.Err() != nil:
		return
	case !errors.Is(err, store.ErrDeposed):
		t.c.log.Error("a change cannot be stored", "change", c.Number, "because", err)
	}
	t.inbox.call(func(l *reconfig.Leader) { l.Stored(t.c.now(), c.Number, err == nil) })
}

// awaitLeases asks all controllers how long their grants last. A majority of answers is enough. The others are asked for a
// while longer.
func (t *leading) awaitLeases(f reconfig.LeaseWait) {
	set := &t.leader.State().Controllers
	controllers := set.Addresses()
	ctx, cancel := context.WithCancel(t.ctx)
	answered := make(chan struct{}, len(controllers))
	majority := set.Majority()
	for _, address := range controllers {
		t.begin(func() {
			left, ok := t.c.leaseLeft(ctx, address, f)
			if ok {
				t.inbox.call(func(l *reconfig.Leader) { l.LeaseLeft(t.c.now(), address, f.Change, left) })
				answered <- struct{}{}
			}
		})
	}
	t.begin(func() {
		defer cancel()
		for range majority {
			select {
			case <-answered:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(askOn):
		case <-ctx.Done():
		}
	})
}

func (c *Controller) leaseLeft(ctx context.Context, address string, f reconfig.LeaseWait) (time.Duration, bool) {
	if address == c.options.Address {
		left, err := c.view.leaseLeft(ctx, f.Change, f.Nodes)
		return left, err == nil
	}
	p := c.peers.get(address)
	if p == nil { // the set has changed meanwhile
		return 0, false
	}
	return p.leaseLeft(ctx, f)
}

// register tells the leader of a node; its answer is not waited for.
func (t *leading) register(h reconfig.Registration) {
	t.inbox.call(func(l *reconfig.Leader) {
		if err := l.Register(t.c.now(), h); err != nil {
			t.c.log.Warn("a connected node is refused", "node", h.Name, "because", err)
		}
	})
}
