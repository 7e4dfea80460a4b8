package chaos

import (
	"context"
	"slices"

	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// GatewayOptions describe a trial of gateways with many faults. Every host of a controller also runs a gateway and, unless
// the gateways serve a keyspace in memory, a member of the etcd behind them.
type GatewayOptions struct {
	ServedOptions
	// Member and Gateway return the command lines of the processes on a host. Member is nil for a keyspace in memory.
	Member, Gateway func(l *lab.Lab, h lab.Host) []string
}

// GatewayResult is the outcome of a trial of gateways.
type GatewayResult struct {
	ServedResult
	Hits       uint64 `json:"hits"`        // reads that the chain answered; those of the last second before a kill are not counted
	NearbyHits uint64 `json:"nearby_hits"` // of these: from the memory of a node, without the network
	Gateways   int    `json:"gateways"`
}

// GatewayPin begins the keys of locks and elections. Gateways that place them at the first read have them before they
// exist.
const GatewayPin = servedPrefix + gatewaycheck.LocksPrefix

// Gateways brings a cluster up, with gateways and perhaps an etcd, injects faults while clients work, and checks all that
// the clients saw against the history. It removes the cluster in any case.
func Gateways(ctx context.Context, o GatewayOptions) (*GatewayResult, error) {
	var gateways int
	result, t, err := serve(ctx, &o.ServedOptions, func(l *lab.Lab) scene {
		var members, servers []*lab.Service
		for _, h := range l.Plan.With(lab.RoleController) {
			if o.Member != nil {
				members = append(members, l.Service(h.Name, "etcd-"+h.Name, o.Member(l, h)))
			}
			servers = append(servers, l.Service(h.Name, "gateway-"+h.Name, o.Gateway(l, h)))
		}
		gateways = len(servers)
		s := scene{
			services: slices.Concat(members, servers), recipes: gatewayRecipes, fromChain: gatewaycheck.HitsMetric,
			engage: func(d *driver) { d.members, d.gateways = members, servers },
		}
		if o.Member != nil { // keyspaces in memory have neither these counters nor services for locks and elections
			s.recipes = slices.Concat(gatewayRecipes, memberRecipes)
			s.workload.Locks = servedLocks
			s.page = func(h lab.Host) string { return "http://" + o.Address(h) + "/proxy/metrics" }
			s.counters = []string{gatewaycheck.HitsMetric, gatewaycheck.NearbyHitsMetric}
		}
		return s
	}, nil)
	if err != nil {
		return nil, err
	}
	return &GatewayResult{
		ServedResult: *result, Gateways: gateways,
		Hits: t.counted(gatewaycheck.HitsMetric), NearbyHits: t.counted(gatewaycheck.NearbyHitsMetric),
	}, nil
}
