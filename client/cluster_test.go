package client

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// testCluster is a chain of real nodes on loopback.
type testCluster struct {
	planes  []*soft.Plane
	cluster *Cluster
}

// options of a test's nodes.
func testNodeOptions(shards int) chain.Options {
	return chain.Options{Shards: shards, CellBytes: 1024, MaxObjects: 10_000, MaxSessions: 10_000}
}

// startNodes starts nodes that serve nothing yet.
func startNodes(t testing.TB, n int, o chain.Options) []*soft.Plane {
	t.Helper()
	planes := make([]*soft.Plane, n)
	for i := range planes {
		p, err := soft.Listen(netip.MustParseAddrPort("127.66.0.1:0"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		planes[i] = p
	}
	return planes
}

// clusterOf describes one chain of nodes that stand at the given addresses.
func clusterOf(shards int, addrs ...netip.AddrPort) *Cluster {
	c := &Cluster{Epoch: 1, Shards: shards, Chains: [][]string{nil}}
	for i, addr := range addrs {
		name := fmt.Sprintf("n%d", i+1)
		c.Nodes = append(c.Nodes, Node{Name: name, Addr: addr})
		c.Chains[0] = append(c.Chains[0], name)
	}
	return c
}

// configure makes the planes the cluster's chain.
func configure(t testing.TB, planes []*soft.Plane, c *Cluster) {
	t.Helper()
	for i, p := range planes {
		for shard := range c.Shards {
			if err := p.ConfigureAll(map[uint16]chain.ShardConfig{uint16(shard): c.ShardConfig(c.Nodes[i].Name,
				uint16(shard))}); err != nil {
				t.Fatal(err)
			}
			if err := p.Grant(uint16(shard), dataplane.Forever); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// startCluster starts a chain of n nodes without loss.
func startCluster(t testing.TB, n, shards int) *testCluster {
	t.Helper()
	planes := startNodes(t, n, testNodeOptions(shards))
	var addrs []netip.AddrPort
	for _, p := range planes {
		addrs = append(addrs, p.Addr())
	}
	c := clusterOf(shards, addrs...)
	configure(t, planes, c)
	return &testCluster{planes, c}
}

func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// soon is a deadline that only a broken client or a broken machine misses.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
