// Package softchain runs chains of nodes on sockets for tests of what uses a chain.
package softchain

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/wire"
)

// Start runs a chain until the test ends. Each node has room for so many objects, and as many sessions.
func Start(t testing.TB, nodes, shards, objects int) *topology.Cluster {
	t.Helper()
	return StartNodes(t, nodes, options(shards, objects))
}

// StartNodes runs a chain of nodes with these options until the test ends.
func StartNodes(t testing.TB, nodes int, o chain.Options) *topology.Cluster {
	t.Helper()
	c, _ := start(t, nodes, o)
	return c
}

// StartWithAgents runs a chain as [Start] does, with the agents of its nodes. stop ends the agent of a node, by its
// place.
func StartWithAgents(t testing.TB, nodes, shards, objects int) (c *topology.Cluster, stop func(place int)) {
	t.Helper()
	c, planes := start(t, nodes, options(shards, objects))
	ends := make([]func(), nodes)
	for i, p := range planes {
		a, err := agent.New(agent.Options{Name: c.Nodes[i].Name, Plane: p, API: "127.66.17.1:0", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes[i].API = a.API()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- a.Serve(ctx) }()
		ends[i] = sync.OnceFunc(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(ends[i])
	}
	return c, func(place int) { ends[place]() }
}

func options(shards, objects int) chain.Options {
	return chain.Options{Shards: shards, CellBytes: wire.MaxValueBytes, MaxObjects: objects, MaxSessions: objects}
}

func start(t testing.TB, nodes int, o chain.Options) (*topology.Cluster, []*soft.Plane) {
	t.Helper()
	c := &topology.Cluster{Epoch: 1, Shards: o.Shards, Chains: [][]string{nil}}
	var planes []*soft.Plane
	for i := range nodes {
		p, err := soft.Listen(netip.MustParseAddrPort("127.66.17.1:0"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		planes = append(planes, p)
		name := fmt.Sprintf("n%d", i+1)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: p.Addr()})
		c.Chains[0] = append(c.Chains[0], name)
	}
	for i, p := range planes {
		for shard := range uint16(o.Shards) {
			config := map[uint16]chain.ShardConfig{shard: c.ShardConfig(c.Nodes[i].Name, shard)}
			if err := p.ConfigureAll(config); err != nil {
				t.Fatal(err)
			}
			if err := p.Grant(shard, dataplane.Forever); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c, planes
}

// Connect makes a client until the test ends.
func Connect(t testing.TB, cluster *topology.Cluster) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{Cluster: cluster})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}
