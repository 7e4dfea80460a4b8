package client

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// Cluster is the content of a cluster file: the nodes, shards and chains of a static cluster, or the controllers of
// one that runs itself.
type Cluster = topology.Cluster

// Node is one member of a cluster.
type Node = topology.Node

// Map is the state of a cluster at some moment: which chain serves each shard.
type Map = topology.Map

// MapChain is the chain of some shards in a [Map].
type MapChain = topology.MapChain

// LoadCluster reads a cluster file.
func LoadCluster(path string) (*Cluster, error) { return topology.Read(path) }

// Follower knows the map of a cluster that changes. Package client/follow has one.
type Follower interface {
	// Keys are the present keys of a cluster whose map says that it has tags or is about to; nil: there are none yet.
	Keys() *wire.Keyring
	// Map returns the newest map known.
	Map() *Map
	// Watch has changed called with every newer map, one after the other, until stop is called. changed does not wait.
	Watch(changed func(*Map)) (stop func())
	// Stale says that the map of this version seems to be old: nodes know of later epochs, or do not answer. It does
	// not wait.
	Stale(version uint64)
}

// view is a map made ready for use. It does not change; a new map is a new view.
type view struct {
	source *Map
	routes []*route // for each chain of the map
	nodes  map[string]*member
	byAddr map[netip.AddrPort]*member
}

// route is the way to a chain in one epoch.
type route struct {
	view    *view
	epoch   uint32
	members []*member // head first
	serving uint8     // those that answer reads: one bit for each place
	lost    bool

	writes *[maxSockets]batching // of each pipeline; they last from map to map as long as the members do
}

func (r *route) equal(other *route) bool {
	return r.epoch == other.epoch && r.serving == other.serving && slices.Equal(r.members, other.members)
}

// names of the members, head first.
func (r *route) names() []string {
	names := make([]string, len(r.members))
	for i, m := range r.members {
		names[i] = m.name
	}
	return names
}

// place finds an address in the chain; -1 if it is no member.
func (r *route) place(addr netip.AddrPort) int {
	return slices.IndexFunc(r.members, func(m *member) bool { return m.addr == addr })
}

// member is a node as the client sees it. It lasts from map to map.
type member struct {
	name   string
	addr   netip.AddrPort
	udp    *net.UDPAddr // the same, for system calls on many messages
	near   nearness
	reads  estimate // of answers to reads sent to it, from any node
	writes estimate

	ways [maxSockets]ways // of each pipeline
}

// ways are the batching of a pipeline's messages to a node. The pipeline's lock guards them.
type ways struct {
	reads   batching
	trains  batching  // of bundles
	refused time.Time // the latest refusal of the kernel to cut a train
}

// newView compiles a map. Nodes that were known before keep their measurements.
func newView(m *Map, before *view) (*view, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("the cluster's map: %w", err)
	}
	v := &view{source: m, routes: make([]*route, len(m.Chains)), nodes: make(map[string]*member, len(m.Nodes)),
		byAddr: make(map[netip.AddrPort]*member, len(m.Nodes))}
	for _, n := range m.Nodes {
		if before != nil && before.nodes[n.Name] != nil && before.nodes[n.Name].addr == n.Addr {
			v.nodes[n.Name] = before.nodes[n.Name]
		} else {
			v.nodes[n.Name] = &member{name: n.Name, addr: n.Addr, udp: net.UDPAddrFromAddrPort(n.Addr)}
		}
		v.byAddr[n.Addr] = v.nodes[n.Name]
	}
	for i := range m.Chains {
		c := &m.Chains[i]
		r := &route{view: v, epoch: c.Epoch, lost: c.Lost, writes: new([maxSockets]batching)}
		for place, member := range c.Members {
			r.members = append(r.members, v.nodes[m.Nodes[member].Name])
			if place != c.Learner {
				r.serving |= 1 << place
			}
		}
		if before != nil && i < len(before.routes) && slices.Equal(before.routes[i].members, r.members) {
			r.writes = before.routes[i].writes
		}
		v.routes[i] = r
	}
	if before != nil {
		return v, v.follows(before)
	}
	return v, nil
}

// follows returns an error if a view cannot follow another one. If epochs went back, judge could misinterpret refusals.
func (v *view) follows(before *view) error {
	old, now := before.source, v.source
	switch {
	case now.Version <= old.Version:
		return errStillOld
	case old.Cluster != "" && now.Cluster != old.Cluster:
		return fmt.Errorf("this is cluster %q, and the client was made for %q", now.Cluster, old.Cluster)
	case now.Shards() != old.Shards():
		return fmt.Errorf("the cluster has %d shards now and had %d", now.Shards(), old.Shards())
	}
	for shard := range now.ByShard {
		if was, is := old.Chain(uint16(shard)).Epoch, now.Chain(uint16(shard)).Epoch; is < was {
			return fmt.Errorf("the epoch of shard %d went back from %d to %d", shard, was, is)
		}
	}
	return nil
}

var errStillOld = errors.New("the map is not newer")

// shard is the shard of a key.
func (v *view) shard(k wire.Key) uint16 { return k.Shard(v.source.Shards()) }

// route is the way to a shard's chain.
func (v *view) route(shard uint16) *route { return v.routes[v.source.ByShard[shard]] }
