package controller

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// Map is of the API.
func (c *Controller) Map(in *controllerv1.MapRequest, stream grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	known := in.GetKnown()
	for {
		var next *controllerv1.MapResponse
		err := c.view.until(stream.Context(), func() bool {
			if c.view.loaded() && c.view.state.Change > known {
				next = c.view.mapOfCluster()
			}
			return next != nil
		})
		if err != nil {
			return nil // the asker has gone
		}
		if err := stream.Send(next); err != nil {
			return err
		}
		known = next.GetVersion()
	}
}

// mapOfCluster is the map as it is now; many streams share it. The caller holds the lock.
func (v *view) mapOfCluster() *controllerv1.MapResponse {
	if v.clusters == nil {
		v.clusters = mapOf(v.state)
	}
	return v.clusters
}

// chainID is comparable, as a list of members is not.
type chainID struct {
	epoch   uint32
	members [wire.MaxChain]reconfig.NodeID
	learner reconfig.NodeID
	lost    bool
}

func mapOf(s *reconfig.State) *controllerv1.MapResponse {
	m := &controllerv1.MapResponse{
		Version: s.Change, Cluster: s.Settings.Cluster, Shards: uint32(s.Settings.Shards), Controllers: s.Controllers.Addresses(),
		Tags: s.Settings.Tags.Phase.Sends(), TagPhase: uint32(s.Settings.Tags.Phase),
	}
	for _, id := range slices.Sorted(maps.Keys(s.Nodes)) {
		n := s.Nodes[id]
		if n.Standing != reconfig.Removed {
			m.Nodes = append(m.Nodes, &controllerv1.MapNode{Id: uint32(id), Name: n.Name, Addr: n.Addr.String(), Api: n.API, Labels: n.Labels})
		}
	}
	chains := make(map[chainID]*controllerv1.MapChain)
	for shard, is := range s.Shards {
		id := chainID{epoch: is.Epoch, learner: is.Learner, lost: is.Lost}
		copy(id.members[:], is.Members)
		chain := chains[id]
		if chain == nil {
			chain = &controllerv1.MapChain{Epoch: is.Epoch, Learner: uint32(is.Learner), Lost: is.Lost}
			for _, member := range is.Members {
				chain.Members = append(chain.Members, uint32(member))
			}
			chains[id] = chain
			m.Chains = append(m.Chains, chain)
		}
		chain.Shards = binary.BigEndian.AppendUint16(chain.Shards, uint16(shard))
	}
	slices.SortStableFunc(m.Chains, func(a, b *controllerv1.MapChain) int { return cmp.Compare(len(b.Shards), len(a.Shards)) })
	return m
}
