package clitest

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// StartChain starts three soft nodes and returns their cluster file.
func StartChain(t *testing.T) string {
	t.Helper()
	cluster := &topology.Cluster{Epoch: 1, Shards: 4, Chains: [][]string{nil}}
	var planes []*soft.Plane
	for i := range 3 {
		p, err := soft.Listen(netip.MustParseAddrPort("127.66.0.2:0"),
			chain.Options{Shards: cluster.Shards, CellBytes: 256, MaxObjects: 100, MaxSessions: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		name := fmt.Sprintf("n%d", i+1)
		cluster.Nodes = append(cluster.Nodes, topology.Node{Name: name, Addr: p.Addr()})
		cluster.Chains[0] = append(cluster.Chains[0], name)
		planes = append(planes, p)
	}
	for i, p := range planes {
		for shard := range uint16(cluster.Shards) {
			if err := p.ConfigureAll(map[uint16]chain.ShardConfig{shard: cluster.ShardConfig(cluster.Nodes[i].Name,
				shard)}); err != nil {
				t.Fatal(err)
			}
			if err := p.Grant(shard, dataplane.Forever); err != nil {
				t.Fatal(err)
			}
		}
	}
	return WriteCluster(t, cluster)
}

// WriteCluster writes a cluster file, removed when the test ends, and returns its path.
func WriteCluster(t *testing.T, cluster *topology.Cluster) string {
	t.Helper()
	text, err := cluster.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
