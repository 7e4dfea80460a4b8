package controller

import (
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// TestAgentAwayDataPlaneServes: without its agent a node lives on, holds its lease and takes writes, since its data plane answers
// heartbeats.
func TestAgentAwayDataPlaneServes(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	kv := c.client()
	c.fill(kv, 20, "before")
	plane := c.nodes["n2"].plane
	alive := func() uint64 {
		counters, err := plane.Counters()
		if err != nil {
			t.Fatal(err)
		}
		return counters[chain.Counter{Op: wire.OpHeartbeat, Outcome: wire.OutcomeAlive}]
	}
	c.eventually("heartbeats grant a lease", func() bool {
		granted, err := plane.Granted()
		return err == nil && granted.Until > plane.Clock()
	})
	change := c.controllers[0].view.change()
	c.nodes["n2"].agent.end()
	ended, before := plane.Clock(), alive()
	c.eventually("a lease goes on for ten times as long as one lasts", func() bool {
		granted, err := plane.Granted()
		if err != nil || granted.Until < plane.Clock() {
			t.Fatalf("the lease is over: %v", err)
		}
		return granted.Until > ended+10*uint64(c.settings.Lease)
	})
	if alive() <= before {
		t.Error("no heartbeat was answered")
	}
	if now := c.controllers[0].view.change(); now != change {
		t.Errorf("change %d became %d", change, now)
	}
	c.check(kv, 20, "before")
	c.fill(kv, 20, "after")
	c.check(kv, 20, "after")
}
