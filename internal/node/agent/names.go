package agent

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/security"
)

// mapWithin bounds the wait for the map that explains an order: controllers send both, on two connections.
const mapWithin = 2 * time.Second

// checkSource compares the name in the certificate of a copy's source with that of the node at its address. The stream has to
// have received something.
func (m *membership) checkSource(ctx context.Context, source string) error {
	if security.NodeOf(ctx) == "" {
		return nil
	}
	name := ""
	m.relay.await(ctx, func(cluster *controllerv1.MapResponse) bool {
		at := slices.IndexFunc(cluster.GetNodes(), func(n *controllerv1.MapNode) bool { return n.GetApi() == source })
		if at >= 0 {
			name = cluster.GetNodes()[at].GetName()
		}
		return at >= 0
	})
	return security.CheckNode(ctx, name)
}

// checkTarget refuses a caller whose certificate has a node's name, unless that node is in the chain of each of the shards, or
// the chain is one node that waits for another.
func (m *membership) checkTarget(ctx context.Context, shards map[uint16]uint32) error {
	name := security.NodeOf(ctx)
	if name == "" {
		return nil
	}
	if !m.relay.await(ctx, func(cluster *controllerv1.MapResponse) bool { return mayCopy(cluster, name, shards) }) {
		return status.Errorf(codes.PermissionDenied, "the certificate is one of node %s, which is in no chain of these shards: "+
			"only a node in the chain may copy them", name)
	}
	return nil
}

func mayCopy(cluster *controllerv1.MapResponse, name string, shards map[uint16]uint32) bool {
	at := slices.IndexFunc(cluster.GetNodes(), func(n *controllerv1.MapNode) bool { return n.GetName() == name })
	if at < 0 {
		return false
	}
	id, found := cluster.GetNodes()[at].GetId(), 0
	for _, c := range cluster.GetChains() {
		in := len(c.GetMembers()) == 1 || slices.Contains(c.GetMembers(), id)
		for b := c.GetShards(); len(b) > 1; b = b[2:] {
			if _, wanted := shards[binary.BigEndian.Uint16(b)]; wanted && !in {
				return false
			} else if wanted {
				found++
			}
		}
	}
	return found == len(shards)
}

// await waits until the map fulfils a condition, and reports whether it does.
func (r *mapRelay) await(ctx context.Context, holds func(*controllerv1.MapResponse) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, mapWithin)
	defer cancel()
	for {
		r.mu.Lock()
		newest, changed := r.newest, r.changed
		r.mu.Unlock()
		if newest != nil && holds(newest) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}
