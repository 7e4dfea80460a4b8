package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/topology"
	"github.com/netcraq/netcraq/wire"
)

// askWithin is how long another node may take to say what it knows; one that does not run refuses at once.
const askWithin = 500 * time.Millisecond

// checkRestart keeps a node whose state is gone out of a chain that it has already committed writes in (C4): it would
// answer for keys that it has lost. In a static cluster nobody can make it join as new. The other nodes' counters
// tell; one that serves other chains too proves nothing.
func (a *Agent) checkRestart(c *topology.Cluster) error {
	kept, err := a.hasState()
	if err != nil || kept {
		return err
	}
	witnesses := a.witnesses(c)
	errs := make([]error, len(witnesses))
	var group sync.WaitGroup
	for i, node := range witnesses {
		group.Go(func() {
			if committed(node.APIAddr()) {
				errs[i] = fmt.Errorf("%s and %s committed writes together, and %s has lost its state: it cannot come back "+
					"into a static chain; stop every node of the chain (for xdp: `netcraq node --remove`) and start them all, empty",
					node.Name, a.options.Name, a.options.Name)
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// hasState reports whether the plane serves a shard already: then it outlived an agent, with its objects.
func (a *Agent) hasState() (bool, error) {
	for shard := range a.options.Plane.Info().Options.Shards {
		config, err := a.options.Plane.Config(uint16(shard))
		if err != nil || config.State != chain.None {
			return true, err
		}
	}
	return false, nil
}

// witnesses are the other nodes in no chain but those of this node.
func (a *Agent) witnesses(c *topology.Cluster) []topology.Node {
	var nodes []topology.Node
	for _, node := range c.Nodes {
		if node.Name == a.options.Name {
			continue
		}
		together, apart := 0, 0
		for _, names := range c.Chains {
			switch {
			case !slices.Contains(names, node.Name):
			case slices.Contains(names, a.options.Name):
				together++
			default:
				apart++
			}
		}
		if together > 0 && apart == 0 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// committed reports whether a write went through a whole chain of the node whose agent is at addr. An agent that does
// not answer is one that has not been started.
func committed(addr string) bool {
	client, conn, err := Dial(addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	counters, err := client.Counters(ctx, &agentv1.CountersRequest{})
	for _, counter := range counters.GetCounters() {
		switch wire.Outcome(counter.GetOutcome()) {
		case wire.OutcomeCommitted, wire.OutcomeAcked:
			return err == nil
		}
	}
	return false
}
