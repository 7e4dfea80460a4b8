package agent

import (
	"context"
	"errors"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/wire"
)

// applyAgain is the pause before something that the plane refused is tried again.
const applyAgain = 100 * time.Millisecond

// receiveOrder keeps an order to be applied soon. A newer order replaces it: each order is complete.
func (m *membership) receiveOrder(in *controllerv1.Order) error {
	o, err := message.Order(m.plane.Info().Addr, in)
	if err != nil {
		return err
	}
	m.listening.Lock()
	if n := m.newest; n == nil || o.Term > n.Term || o.Term == n.Term && o.Number >= n.Number {
		m.newest = &o
	}
	m.listening.Unlock()
	poke(m.ordered)
	return nil
}

// applyOrders applies orders as they come.
func (m *membership) applyOrders(ctx context.Context) {
	report := reporter{log: m.log, what: "cannot apply an order; trying again"}
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.ordered:
		}
		m.listening.Lock()
		o := m.newest
		m.newest = nil
		m.listening.Unlock()
		if o == nil {
			continue
		}
		err := m.apply(o)
		if report.result(err); err != nil {
			m.again(o)
		}
	}
}

// apply applies one order. It sends the inventory if the term is new or the order is empty.
func (m *membership) apply(o *reconfig.Order) error {
	m.applying.Lock()
	defer m.applying.Unlock()
	if id := m.identity; o.Term > id.Term {
		id.Term = o.Term
		if err := m.remember(id); err != nil {
			return err
		}
	}
	term := m.member.Term()
	err := m.member.Order(*o)
	if m.member.Term() != term || len(o.Configs) == 0 { // the leader has no inventory of the node
		for _, l := range m.allLinks() {
			m.tellInventory(l)
		}
	}
	if refused := m.member.Heartbeat().Refused; refused != "" {
		m.log.Error("an order cannot be applied", "term", o.Term, "number", o.Number, "because", refused)
	} else {
		m.log.Debug("applied an order", "term", o.Term, "number", o.Number, "shards", len(o.Configs))
	}
	m.work()
	poke(m.applied)
	return err
}

// again receives an order once more after a while, unless a newer one has come.
func (m *membership) again(o *reconfig.Order) {
	m.start(func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(applyAgain):
		}
		m.listening.Lock()
		if m.newest == nil {
			m.newest = o
		}
		m.listening.Unlock()
		poke(m.ordered)
	})
}

// publish lets the next heartbeat say how the member is.
func (m *membership) publish() {
	b := m.member.Heartbeat()
	m.status.Store(&b)
}

// work starts and stops the member's tasks. The caller holds applying.
func (m *membership) work() {
	m.publish()
	poke(m.news)
	work := m.member.Work()
	if len(work.Wipe)+len(work.Doubt) > 0 && !m.wiping {
		m.wiping = true
		m.start(func(ctx context.Context) { m.wipe(ctx, work.Wipe, work.Doubt) })
	}
	wanted := make(map[uint64]bool)
	for _, job := range work.Copies {
		wanted[job.Job] = true
		if m.copies[job.Job] == nil {
			m.copies[job.Job] = m.start(func(ctx context.Context) { m.runCopy(ctx, job) })
		}
	}
	for job, stop := range m.copies {
		if !wanted[job] {
			stop()
			delete(m.copies, job)
		}
	}
}

// wipe deletes shards that the node left, and writes of doubted shards that may not be committed.
func (m *membership) wipe(ctx context.Context, shards, doubted []uint16) {
	var err error
	if len(shards) > 0 {
		err = m.plane.Drop(shards)
	}
	var empty []wire.Key
	gone := newRemembered()
	if err == nil && len(doubted) > 0 {
		end := m.hurry(true)
		empty, err = m.plane.Doubt(doubted, gone.add)
		end()
	}
	m.applying.Lock()
	if err == nil {
		err = errors.Join(m.member.Wiped(shards), m.member.Doubted(doubted))
	}
	if err == nil {
		m.noteEmpty(doubted, empty)
		m.sessions.forget(shards)
		m.sessions.replace(doubted, &gone)
		m.wiping = false
		m.log.Info("deleted what the node stored of shards that it left", "shards", len(shards), "kept", len(doubted))
		m.work()
	}
	m.applying.Unlock()
	if err == nil {
		return
	}
	m.log.Error("cannot delete what the node stored of shards that it left; trying again", "shards", len(shards), "kept",
		len(doubted), "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(applyAgain):
		m.wipe(ctx, shards, doubted)
	}
}

// noteEmpty remembers which objects of shards that the node left are empty, to ask for them when it joins again.
func (m *membership) noteEmpty(shards []uint16, keys []wire.Key) {
	for _, shard := range shards {
		m.empty[shard] = nil
	}
	for _, k := range keys {
		shard := k.Shard(m.plane.Info().Options.Shards)
		m.empty[shard] = append(m.empty[shard], k)
	}
}

// givenUp lists the objects of some shards that the node gave up. A restarted agent asks the plane: an UPDATE may have
// made some of them dirty since (C8).
func (m *membership) givenUp(shards []uint16) ([]wire.Key, error) {
	m.applying.Lock()
	var keys []wire.Key
	known := true
	for _, shard := range shards {
		empty, ok := m.empty[shard]
		known = known && ok
		keys = append(keys, empty...)
	}
	m.applying.Unlock()
	if known {
		return keys, nil
	}
	return m.plane.Doubtful(shards)
}

// tellInventory sends a controller the node's inventory. It may have to wait for the plane.
func (m *membership) tellInventory(l *link) {
	m.start(func(context.Context) {
		m.applying.Lock()
		i := m.member.Inventory()
		m.applying.Unlock()
		l.send(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Inventory{Inventory: message.FromInventory(&i)}})
	})
}
