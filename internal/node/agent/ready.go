package agent

import (
	"fmt"
	"strings"
)

// Unready is why a node does not serve all its shards; empty: it does. A node that no chain needs is ready. A frozen shard counts as
// served: it answers clean reads, and the change that froze it does not wait for probes.
func (r *Report) Unready() string {
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
