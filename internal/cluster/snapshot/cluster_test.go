package snapshot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
)

// testCluster is a chain of real nodes with their agents.
type testCluster struct {
	*topology.Cluster
	client *client.Client
	planes []*soft.Plane
	stop   []context.CancelFunc // of each agent
}

func startCluster(t *testing.T, nodes int, o chain.Options) *testCluster {
	t.Helper()
	o.MaxSessions = 10_000
	c := &testCluster{Cluster: &topology.Cluster{Epoch: 1, Shards: o.Shards, Chains: [][]string{nil}}}
	for i := range nodes {
		plane, err := soft.Listen(netip.MustParseAddrPort("127.66.5.1:0"), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { plane.Close() })
		name := fmt.Sprintf("n%d", i+1)
		c.planes = append(c.planes, plane)
		c.Nodes = append(c.Nodes, topology.Node{Name: name, Addr: plane.Addr(), API: freeAPI(t, "127.66.5.1")})
		c.Chains[0] = append(c.Chains[0], name)
	}
	var agents []*agent.Agent
	for i, plane := range c.planes {
		agents = append(agents, c.startAgent(t, i, plane))
	}
	for _, a := range agents {
		if err := a.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if c.client, err = client.New(client.Options{Cluster: c.Cluster, Timeout: 30 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.client.Close() })
	return c
}

// freeAPI returns an address for an agent that is free.
func freeAPI(t *testing.T, ip string) string {
	t.Helper()
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func (c *testCluster) startAgent(t *testing.T, i int, plane *soft.Plane) *agent.Agent {
	t.Helper()
	a, err := agent.New(agent.Options{
		Name: c.Nodes[i].Name, Cluster: c.Cluster, Plane: plane, API: c.Nodes[i].API,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c.stop = append(c.stop, cancel)
	return a
}

func dial(api string) (agentv1.AgentClient, func() error, error) {
	a, conn, err := agent.Dial(api)
	if err != nil {
		return nil, nil, err
	}
	return a, conn.Close, nil
}

func (c *testCluster) backup(t *testing.T, path string) *BackupReport {
	t.Helper()
	report, err := Backup(t.Context(), path, BackupOptions{Client: c.client, Agents: dial})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
