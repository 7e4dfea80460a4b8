package node

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// checkReady returns an error if a node does not serve all its shards, for probes. A node that no chain needs is ready.
func checkReady(reports []*agent.Report) error {
	for _, r := range reports {
		if why := unready(r); why != "" {
			return fmt.Errorf("node %s is not ready: %s", r.Name, why)
		}
	}
	return nil
}

// unready is why a node does not serve all its shards; empty: it does. A frozen shard counts as served: it answers clean
// reads, and the change that froze it does not wait for probes.
func unready(r *agent.Report) string {
	switch m := r.Membership; {
	case r.Error != "":
		return r.Error
	case r.PortTrouble != "":
		return r.PortTrouble
	case len(r.WaitingFor) > 0:
		return "it waits for " + strings.Join(r.WaitingFor, ", ")
	case m == nil:
	case m.Refused != "":
		return "it cannot apply the controllers' order: " + m.Refused
	case m.LeaseLeftMS <= 0:
		return "it has no lease"
	}
	for _, c := range r.Chains {
		if c.Learner {
			return fmt.Sprintf("it still copies %d shards", len(c.Shards))
		}
	}
	return ""
}

// checkDrained returns an error while a node is in a chain.
func checkDrained(reports []*agent.Report) error {
	for _, r := range reports {
		switch {
		case r.Error != "":
			return fmt.Errorf("node %s: %s", r.Name, r.Error)
		case len(r.Chains) > 0:
			return fmt.Errorf("node %s is still in chains", r.Name)
		}
	}
	return nil
}
