package follow

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// decode decodes and checks a map from a controller or a node.
func decode(in *controllerv1.MapResponse) (*topology.Map, error) {
	if in.GetShards() > wire.MaxShards {
		return nil, fmt.Errorf("%d shards, and there are at most %d", in.GetShards(), wire.MaxShards)
	}
	m := &topology.Map{
		Version: in.GetVersion(), Cluster: in.GetCluster(), Controllers: in.GetControllers(), Tags: tagsOf(in),
		Nodes:  make([]topology.Node, 0, len(in.GetNodes())),
		Chains: make([]topology.MapChain, 0, len(in.GetChains())), ByShard: make([]uint32, in.GetShards()),
	}
	places := make(map[uint32]int, len(in.GetNodes()))
	for i, n := range in.GetNodes() {
		addr, err := netip.ParseAddrPort(n.GetAddr())
		if err != nil {
			return nil, fmt.Errorf("node %q: %w", n.GetName(), err)
		}
		if _, twice := places[n.GetId()]; twice || n.GetId() == 0 {
			return nil, fmt.Errorf("node %q: its number %d is 0 or occurs twice", n.GetName(), n.GetId())
		}
		places[n.GetId()] = i
		m.Nodes = append(m.Nodes, topology.Node{Name: n.GetName(), Addr: addr, API: n.GetApi()})
	}
	served := make([]bool, len(m.ByShard))
	for i, c := range in.GetChains() {
		chain, err := decodeChain(c, places)
		if err != nil {
			return nil, fmt.Errorf("chain %d: %w", i, err)
		}
		m.Chains = append(m.Chains, chain)
		if err := place(m.ByShard, served, c.GetShards(), uint32(i)); err != nil {
			return nil, fmt.Errorf("chain %d: %w", i, err)
		}
	}
	for shard, ok := range served {
		if !ok {
			return nil, fmt.Errorf("shard %d is in no chain", shard)
		}
	}
	return m, m.Validate()
}

// tagsOf is the phase of the tags. A controller that knows of no phases says only whether there are some.
func tagsOf(in *controllerv1.MapResponse) wire.Tags {
	if phase := wire.Tags(min(in.GetTagPhase(), 0xff)); phase.Valid() && phase != wire.TagsOff {
		return phase
	}
	if in.GetTags() {
		return wire.TagsRequired
	}
	return wire.TagsOff
}

func decodeChain(c *controllerv1.MapChain, places map[uint32]int) (topology.MapChain, error) {
	chain := topology.MapChain{Epoch: c.GetEpoch(), Learner: -1, Lost: c.GetLost()}
	for i, id := range c.GetMembers() {
		at, ok := places[id]
		if !ok {
			return chain, fmt.Errorf("there is no node %d", id)
		}
		chain.Members = append(chain.Members, at)
		if id == c.GetLearner() {
			chain.Learner = i
		}
	}
	return chain, nil
}

// place notes the shards of a chain; packed holds two bytes for each.
func place(byShard []uint32, served []bool, packed []byte, chain uint32) error {
	if len(packed)%2 != 0 {
		return fmt.Errorf("the list of shards ends within a number")
	}
	for ; len(packed) > 0; packed = packed[2:] {
		shard := binary.BigEndian.Uint16(packed)
		if int(shard) >= len(byShard) || served[shard] {
			return fmt.Errorf("shard %d of %d does not exist or occurs twice", shard, len(byShard))
		}
		byShard[shard], served[shard] = chain, true
	}
	return nil
}
