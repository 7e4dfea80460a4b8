package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// configOf reads the configuration of some shards for the node at self.
func configOf(self netip.AddrPort, in *agentv1.ShardConfig) (chain.ShardConfig, error) {
	config := chain.ShardConfig{Epoch: in.GetEpoch(), Learner: in.GetLearner()}
	state, err := stateOf(in.GetState())
	if err != nil || state == chain.None {
		return config, err
	}
	config.State, config.Self = state, -1
	// Checked here too, so that a long list of members is not even read.
	if len(in.GetMembers()) > wire.MaxChain {
		return config, fmt.Errorf("a chain has 1 to %d members, not %d", wire.MaxChain, len(in.GetMembers()))
	}
	for i, text := range in.GetMembers() {
		member, err := netip.ParseAddrPort(text)
		if err != nil {
			return config, fmt.Errorf("member %q is not an address and port", text)
		}
		if member == self {
			config.Self = i
		}
		config.Members = append(config.Members, member)
	}
	if config.Self < 0 {
		return config, fmt.Errorf("this node, %v, is not a member of the chain %v", self, config.Members)
	}
	return config, nil
}

func stateOf(in agentv1.State) (chain.State, error) {
	switch in {
	case agentv1.State_STATE_NONE:
		return chain.None, nil
	case agentv1.State_STATE_ACTIVE:
		return chain.Active, nil
	case agentv1.State_STATE_FROZEN:
		return chain.Frozen, nil
	}
	return chain.None, fmt.Errorf("state %d is unknown", in)
}

// configGroups gathers shards that are configured alike.
type configGroups struct {
	configs []*agentv1.ShardConfig
	index   map[string]*agentv1.ShardConfig
}

func (g *configGroups) add(shard uint16, c chain.ShardConfig) {
	id := fmt.Sprint(c)
	group := g.index[id]
	if group == nil {
		group = messageOf(c)
		g.configs = append(g.configs, group)
		if g.index == nil {
			g.index = make(map[string]*agentv1.ShardConfig)
		}
		g.index[id] = group
	}
	group.Shards = append(group.Shards, uint32(shard))
}

func messageOf(c chain.ShardConfig) *agentv1.ShardConfig {
	out := &agentv1.ShardConfig{Epoch: c.Epoch, Learner: c.Learner}
	switch c.State {
	case chain.Active:
		out.State = agentv1.State_STATE_ACTIVE
	case chain.Frozen:
		out.State = agentv1.State_STATE_FROZEN
	}
	for _, member := range c.Members {
		out.Members = append(out.Members, member.String())
	}
	return out
}

// countersOf lists the counts that are not zero, by op and outcome.
func countersOf(counters chain.Counters) []*agentv1.Counter {
	var out []*agentv1.Counter
	for counter, messages := range counters {
		if messages > 0 {
			out = append(out, &agentv1.Counter{Op: uint32(counter.Op), Outcome: uint32(counter.Outcome), Messages: messages})
		}
	}
	slices.SortFunc(out, func(a, b *agentv1.Counter) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Outcome, b.Outcome))
	})
	return out
}
