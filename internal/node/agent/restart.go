package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// askWithin bounds the wait for another node's answer; one that does not run refuses at once.
const askWithin = 500 * time.Millisecond

// startWithin is how long an agent may take from its first connection, which comes before its plane is configured, to
// the first answer.
const startWithin = 10 * time.Second

// checkRestart keeps a node whose state is gone out of a chain that it has already committed writes in (C4): it would
// answer for keys that it has lost. In a static cluster it cannot join as new. The other nodes' counters
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
		group.Go(func() { errs[i] = a.objection(c, node) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// objection is why a node without state may not serve with a witness. An agent that does not answer is one that has not
// been started, unless the data plane answers.
func (a *Agent) objection(c *topology.Cluster, witness topology.Node) error {
	done, err := committed(witness.APIAddr(), askWithin)
	if err != nil && serves(witness.Addr, shardOf(c, witness.Name)) {
		// The agent may have been started meanwhile.
		if done, err = committed(witness.APIAddr(), startWithin); err != nil {
			return fmt.Errorf("the data plane of %s answers, but its agent, at %s, does not: nobody can say whether %s has "+
				"lost writes that both committed; start the agent of %s first, then %s again",
				witness.Name, witness.APIAddr(), a.options.Name, witness.Name, a.options.Name)
		}
	}
	if done {
		return fmt.Errorf("%s and %s committed writes together, and %s has lost its state: it cannot come back "+
			"into a static chain; stop every node of the chain (for xdp: `netcraq node --remove`) and start them all, empty",
			witness.Name, a.options.Name, a.options.Name)
	}
	return nil
}

// shardOf is a shard of a node that is in a chain.
func shardOf(c *topology.Cluster, name string) uint16 {
	return uint16(slices.IndexFunc(c.Chains, func(names []string) bool { return slices.Contains(names, name) }))
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

// committed reports whether a write went through a whole chain of the node whose agent is at addr.
func committed(addr string, within time.Duration) (bool, error) {
	client, conn, err := Dial(addr)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	counters, err := client.Counters(ctx, &agentv1.CountersRequest{})
	if err != nil {
		return false, err
	}
	for _, counter := range counters.GetCounters() {
		switch wire.Outcome(counter.GetOutcome()) {
		case wire.OutcomeCommitted, wire.OutcomeAcked:
			return true, nil
		}
	}
	return false, nil
}
