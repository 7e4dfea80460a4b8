package agent

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/wire"
)

// TestRestartWithoutState (C4): a node that lost what it committed with others is kept out of its static chain; one that
// only starts late is not.
func TestRestartWithoutState(t *testing.T) {
	for lost := range 3 {
		planes := []*soft.Plane{listen(t), listen(t), listen(t)}
		cluster := clusterOf(planes[0].Addr(), planes[1].Addr(), planes[2].Addr())
		for i := range cluster.Nodes {
			cluster.Nodes[i].API = newPort(t)
		}
		for i, node := range cluster.Nodes {
			if i != lost {
				startAt(t, node.API, Options{Name: node.Name, Cluster: cluster, Plane: planes[i]})
			}
		}
		client := newTail(t)
		client.send(planes[0].Addr(), put(t, "before", "v", 1, 1)) // not committed: the chain is not complete
		again := Options{Name: cluster.Nodes[lost].Name, Cluster: cluster, Plane: planes[lost], Log: quiet}
		if _, err := New(again); err != nil {
			t.Fatalf("node %d started late: %v", lost, err)
		}
		client.send(planes[0].Addr(), put(t, "k", "v", 2, 1))
		for i, plane := range planes {
			eventually(t, "the write is committed", func() bool { o, ok := object(t, plane, "k"); return i == lost || ok && o.Clean() })
		}
		addr := planes[lost].Addr()
		planes[lost].Close()
		empty, err := soft.Listen(addr, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		again.Plane = empty
		if _, err := New(again); err == nil || !strings.Contains(err.Error(), "has lost its state") {
			t.Errorf("node %d lost its state and came back: %v", lost, err)
		}
		empty.Close()
	}
}

// TestRestartBesideSilentAgents (C4): where a witness's agent is down and its data plane is not, nobody knows what a node
// without state has lost. A data plane without configuration is of a node that just starts.
func TestRestartBesideSilentAgents(t *testing.T) {
	for _, serving := range []bool{true, false} {
		planes := []*soft.Plane{listen(t), listen(t), listen(t)}
		cluster := clusterOf(planes[0].Addr(), planes[1].Addr(), planes[2].Addr())
		for i := range cluster.Nodes {
			cluster.Nodes[i].API = newPort(t)
		}
		if serving {
			for shard := range uint16(shards) {
				if err := planes[2].ConfigureAll(map[uint16]chain.ShardConfig{shard: cluster.ShardConfig("c", shard)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := New(Options{Name: "b", Cluster: cluster, Plane: planes[1], Log: quiet})
		if !serving && err != nil {
			t.Errorf("among nodes that just start: %v", err)
		}
		if serving && (err == nil || !strings.Contains(err.Error(), "start the agent of c first")) {
			t.Errorf("beside a data plane without an agent: %v", err)
		}
		if config, err := planes[1].Config(0); err != nil || serving != (config.State == chain.None) {
			t.Errorf("serving: %v, configured as %v, %v", serving, config.State, err)
		}
	}
}

// Nodes that start together ask each other whether they serve already; the counters of a new chain do not show that.
func TestNewChainHasCountedNothing(t *testing.T) {
	planes := []*soft.Plane{listen(t), listen(t), listen(t)}
	cluster := clusterOf(planes[0].Addr(), planes[1].Addr(), planes[2].Addr())
	for i := range cluster.Nodes {
		cluster.Nodes[i].API = newPort(t)
		if serves(planes[i].Addr(), 0) {
			t.Fatal("a node serves that has no configuration")
		}
	}
	for i, node := range cluster.Nodes {
		startAt(t, node.API, Options{Name: node.Name, Cluster: cluster, Plane: planes[i]})
		counters, err := planes[i].Counters()
		if n := counters[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeNotMine}]; err != nil || n != 0 {
			t.Errorf("%s has counted %d reads that were not its own: %v", node.Name, n, err)
		}
	}
}
