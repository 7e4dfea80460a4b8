package topology

import (
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/wire"
)

// Map is the clients' view of a cluster: the chain of each shard and its members. A map is immutable: each new state of the
// cluster is another map.
type Map struct {
	Version     uint64 // a newer map has a greater one
	Cluster     string // name; may be empty
	Nodes       []Node
	Chains      []MapChain
	ByShard     []uint32 // for each shard the index of its chain; its length is the number of shards
	Controllers []string
	Tags        wire.Tags
}

// MapChain is the chain of some shards.
type MapChain struct {
	Epoch   uint32
	Members []int // indices into [Map.Nodes], head first; empty: no node serves these shards
	Learner int   // place in Members of one that is not complete yet and answers no reads; -1: none
	Lost    bool  // every copy is gone
}

// Shards is the number of shards.
func (m *Map) Shards() int { return len(m.ByShard) }

// Formed reports whether shards have chains, or ever had: before, a cluster waits for its first nodes.
func (m *Map) Formed() bool {
	return slices.ContainsFunc(m.Chains, func(c MapChain) bool { return c.Epoch > 0 })
}

// Chain returns the chain of a shard.
func (m *Map) Chain(shard uint16) *MapChain { return &m.Chains[m.ByShard[shard]] }

// Names returns the names of a chain's members, head first.
func (m *Map) Names(c *MapChain) []string {
	names := make([]string, len(c.Members))
	for i, member := range c.Members {
		names[i] = m.Nodes[member].Name
	}
	return names
}

// Complete returns the members of a chain that hold everything, head first.
func (m *Map) Complete(c *MapChain) []Node {
	var complete []Node
	for i, member := range c.Members {
		if i != c.Learner {
			complete = append(complete, m.Nodes[member])
		}
	}
	return complete
}

// Map is the map of a static cluster; its version is the epoch.
func (c *Cluster) Map() (*Map, error) {
	if c.Managed() {
		return nil, errors.New("the cluster file names controllers: the map is to be had from them")
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Map{Version: uint64(c.Epoch), Cluster: c.Name, Nodes: c.Nodes, ByShard: make([]uint32, c.Shards)}
	places := make(map[string]int, len(c.Nodes))
	for i, n := range c.Nodes {
		places[n.Name] = i
	}
	for _, names := range c.Chains {
		chain := MapChain{Epoch: c.Epoch, Learner: -1}
		for _, name := range names {
			chain.Members = append(chain.Members, places[name])
		}
		m.Chains = append(m.Chains, chain)
	}
	for shard := range m.ByShard {
		m.ByShard[shard] = uint32(shard % len(m.Chains))
	}
	return m, nil
}

// Validate reports the first thing wrong with a map that came from elsewhere.
func (m *Map) Validate() error {
	if n := m.Shards(); n < 1 || n > wire.MaxShards || n&(n-1) != 0 {
		return fmt.Errorf("a power of two of shards, from 1 to %d, is wanted, not %d", wire.MaxShards, n)
	}
	for i, n := range m.Nodes {
		if n.Name == "" || !n.Addr.Addr().Is4() || n.Addr.Port() == 0 {
			return fmt.Errorf("node %d, %q, has no name or no IPv4 address and port: %v", i, n.Name, n.Addr)
		}
	}
	for i := range m.Chains {
		if err := m.Chains[i].validate(len(m.Nodes)); err != nil {
			return fmt.Errorf("chain %d: %w", i, err)
		}
	}
	for shard, i := range m.ByShard {
		if int(i) >= len(m.Chains) {
			return fmt.Errorf("shard %d has no chain", shard)
		}
	}
	return nil
}

func (c *MapChain) validate(nodes int) error {
	if len(c.Members) > wire.MaxChain {
		return fmt.Errorf("%d members, and a chain has at most %d", len(c.Members), wire.MaxChain)
	}
	if c.Learner != -1 && (c.Learner < 1 || c.Learner >= len(c.Members)-1) { // C3
		return fmt.Errorf("the learner has place %d of %d, and stands strictly inside a chain", c.Learner, len(c.Members))
	}
	if len(c.Members) > 0 && c.Epoch == 0 {
		return errors.New("the first epoch is 1")
	}
	for i, member := range c.Members {
		if member < 0 || member >= nodes {
			return fmt.Errorf("there is no node %d", member)
		}
		for _, other := range c.Members[:i] {
			if other == member {
				return fmt.Errorf("node %d stands twice", member)
			}
		}
	}
	return nil
}
