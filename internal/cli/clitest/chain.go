package clitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// StartChain starts three soft nodes and returns their cluster file.
func StartChain(t *testing.T) string {
	t.Helper()
	cluster := softchain.StartNodes(t, 3, chain.Options{Shards: 4, CellBytes: 256, MaxObjects: 100, MaxSessions: 100})
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
