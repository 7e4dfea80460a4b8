package agent

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// heartbeat tells the controllers that the node lives. It waits for nothing but the time.
func (m *membership) heartbeat(ctx context.Context) {
	look := time.Duration(m.every.Load())
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-m.news:
		}
		every := time.Duration(m.every.Load())
		status := m.status.Load()
		m.leasing.Lock()
		granted := m.renewFromHeartbeats()
		now := m.plane.Clock()
		b := m.lease.Stamp(*status, now)
		m.leasing.Unlock()
		links := m.allLinks()
		spared := true
		for _, l := range links {
			spared = l.takesHeartbeats(now, every, &granted) && spared
		}
		if spared { // the plane has its lease without this process
			b.Stamp = 0
		}
		m.tags.report(&b)
		b.ControllersSince, b.Departing = m.confirmed(), m.leaving.announced.Load()
		var out *controllerv1.Beat
		for _, l := range links {
			if l.needsHeartbeat(now, every, status, spared) || b.Departing {
				if out == nil {
					out = message.FromHeartbeat(&b)
				}
				l.sendHeartbeat(out)
			}
		}
		if next := reconfig.NextLook(every, spared); next != look {
			look = next
			ticker.Reset(look)
		}
	}
}

// grant takes a controller's answer to a heartbeat.
func (m *membership) grant(controller string, g reconfig.Grant) {
	m.leasing.Lock()
	defer m.leasing.Unlock()
	m.renewFromHeartbeats() // the plane may have found that the clock stood still
	if !m.lease.Grant(controller, g) {
		return
	}
	if err := m.plane.Renew(m.lease.Until()); err != nil {
		m.log.Error("cannot renew the lease", "error", err)
	}
	m.renewFromHeartbeats() // as above: between the two
}

// leaseLeft is how long the node may answer reads; not positive: it may not.
func (m *membership) leaseLeft() time.Duration {
	m.leasing.Lock()
	defer m.leasing.Unlock()
	return m.lease.Left(m.plane.Clock())
}

// tellLoadEvery is the time between two reports of the node's load.
const tellLoadEvery = time.Second

// tellLoad reports the node's load to the controllers, and checks whether they are there at all.
func (m *membership) tellLoad(ctx context.Context) {
	report := reporter{log: m.log, what: "cannot tell the node's load"}
	var before []dataplane.ShardLoad
	last := time.Now()
	periodically(ctx, tellLoadEvery, func() time.Duration {
		loads, err := m.plane.Loads()
		if err == nil {
			now := time.Now()
			err = m.sendLoad(now.Sub(last), before, loads)
			before, last = loads, now
		}
		report.result(err)
		m.callAgain()
		return tellLoadEvery
	})
}

func (m *membership) sendLoad(interval time.Duration, before, now []dataplane.ShardLoad) error {
	usage, err := m.plane.Usage()
	if err != nil || before == nil {
		return err
	}
	limits := m.plane.Info().Options
	load := &controllerv1.Load{
		IntervalMs: uint32(interval.Milliseconds()), Objects: uint64(usage.Objects), MaxObjects: uint64(limits.MaxObjects),
		Sessions: uint64(usage.Sessions), MaxSessions: uint64(limits.MaxSessions),
	}
	for shard := range now {
		reads, writes := now[shard].Reads-before[shard].Reads, now[shard].Writes-before[shard].Writes
		if reads+writes > 0 {
			load.Shards = append(load.Shards, &controllerv1.ShardLoad{Shard: uint32(shard), Reads: reads, Writes: writes})
		}
	}
	m.tell(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Load{Load: load}})
	return nil
}
