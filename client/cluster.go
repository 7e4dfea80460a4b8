package client

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/topology"
	"github.com/netcraq/netcraq/wire"
)

// Cluster is a cluster's shape: its nodes, shards and chains.
type Cluster = topology.Cluster

// Node is one member of a cluster.
type Node = topology.Node

// LoadCluster reads a cluster file.
func LoadCluster(path string) (*Cluster, error) { return topology.Load(path) }

// view is a cluster made ready for use. It does not change; a new map of the cluster is a new view.
type view struct {
	cluster *Cluster
	chains  [][]*member // as in the cluster, head first
	nodes   map[string]*member
}

// member is a node as the client sees it.
type member struct {
	name string
	addr netip.AddrPort
	udp  *net.UDPAddr // the same, for system calls on many messages
	rtt  atomic.Int64 // smoothed time to an answer, in nanoseconds; 0: never measured
}

// newView compiles a cluster. Nodes that were known before keep their measurements.
func newView(c *Cluster, before *view) (*view, error) {
	if c == nil {
		return nil, fmt.Errorf("a cluster is needed")
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	v := &view{cluster: c, nodes: make(map[string]*member, len(c.Nodes))}
	for _, n := range c.Nodes {
		m := &member{name: n.Name, addr: n.Addr, udp: net.UDPAddrFromAddrPort(n.Addr)}
		if before != nil && before.nodes[n.Name] != nil && before.nodes[n.Name].addr == n.Addr {
			m.rtt.Store(before.nodes[n.Name].rtt.Load())
		}
		v.nodes[n.Name] = m
	}
	for _, names := range c.Chains {
		chain := make([]*member, len(names))
		for i, name := range names {
			chain[i] = v.nodes[name]
		}
		v.chains = append(v.chains, chain)
	}
	return v, nil
}

// shard is the shard of a key.
func (v *view) shard(k wire.Key) uint16 { return k.Shard(v.cluster.Shards) }

// chain is the chain of a shard, head first.
func (v *view) chain(shard uint16) []*member { return v.chains[int(shard)%len(v.chains)] }

// place finds an address in a chain; -1 if it is no member.
func place(chain []*member, addr netip.AddrPort) int {
	for i, m := range chain {
		if m.addr == addr {
			return i
		}
	}
	return -1
}

// measured takes one sample of the time to an answer. A much better one replaces the average, so that a node that was
// unreachable is soon trusted again; a much worse one, which is mostly the client's own machine being busy, counts as
// twice the average.
func (m *member) measured(sample time.Duration) {
	old := m.rtt.Load()
	if old == 0 || int64(sample) < old/2 {
		m.rtt.Store(max(int64(sample), 1))
		return
	}
	m.rtt.Store(old + (min(int64(sample), 2*old)-old)/8)
}

// missed notes that the node did not answer in time.
func (m *member) missed(timeout time.Duration) {
	if m.rtt.Load() < int64(timeout) {
		m.rtt.Store(int64(timeout))
	}
}
