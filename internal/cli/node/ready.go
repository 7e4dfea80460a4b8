package node

import (
	"fmt"

	"github.com/netcraq/netcraq/internal/node/agent"
)

// checkReady returns an error if a node does not serve all its shards, for probes. A node that no chain needs is ready.
func checkReady(reports []*agent.Report) error {
	for _, r := range reports {
		if why := r.Unready(); why != "" {
			return fmt.Errorf("node %s is not ready: %s", r.Name, why)
		}
	}
	return nil
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
