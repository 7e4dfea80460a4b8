package uses

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

// asked asks for objects within a time that only an agent that does not answer takes.
func asked(t *testing.T, a *Agents, within time.Duration, objects ...string) ([]map[string]placement.Use, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	all, err := a.Uses(ctx, objects)
	if len(all) != len(objects) {
		t.Fatalf("%d answers", len(all))
	}
	nodes := make([]map[string]placement.Use, len(all))
	for i := range all {
		nodes[i] = all[i].Nodes
	}
	return nodes, err
}

func TestUses(t *testing.T) {
	cluster, stop := softchain.StartWithAgents(t, 3, 4, 100)
	c := softchain.Connect(t, cluster)
	for _, key := range []string{"a", "b"} {
		if _, err := c.Put(t.Context(), key, []byte("value of "+key)); err != nil {
			t.Fatal(err)
		}
	}
	const reads = 12
	for range reads {
		if _, err := c.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	agents := New()
	defer agents.Close()
	if nodes, err := asked(t, agents, time.Minute, "a"); err != nil || nodes[0] != nil {
		t.Errorf("before the chain is reached: %v, %v", nodes, err)
	}
	agents.Open(c)
	nodes, err := asked(t, agents, time.Minute, "a", "none", "b", "")
	if err != nil || len(nodes[0]) != 3 || nodes[1] != nil || len(nodes[2]) != 3 || nodes[3] != nil {
		t.Fatalf("%v, %v", nodes, err)
	}
	sum := uint64(0)
	for name, u := range nodes[0] {
		if sum += u.Reads; u.Writes != 1 {
			t.Errorf("%s: %d writes", name, u.Writes)
		}
	}
	if sum < reads { // one whose answer was late counts twice
		t.Errorf("%d reads, not %d", sum, reads)
	}
	stop(1)
	nodes, err = asked(t, agents, 10*time.Second, "a")
	if err == nil || !strings.Contains(err.Error(), "node n2: ") || strings.Contains(err.Error(), "n1") || len(nodes[0]) != 2 {
		t.Errorf("an agent is away: %v, %v", nodes, err)
	}
}

// TestAgentsThatDoNotTell: one agent is of an older version, and another takes the request and does not answer.
func TestAgentsThatDoNotTell(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.66.17.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	old, silent := listen(), listen()
	server := grpc.NewServer()
	agentv1.RegisterAgentServer(server, agentv1.UnimplementedAgentServer{})
	go server.Serve(old)
	t.Cleanup(server.Stop)
	cluster, _ := softchain.StartWithAgents(t, 3, 1, 100)
	cluster.Nodes[0].API = old.Addr().String()
	c := softchain.Connect(t, cluster)
	if _, err := c.Put(t.Context(), "a", []byte("v")); err != nil {
		t.Fatal(err)
	}
	agents := New()
	defer agents.Close()
	agents.Open(c)
	nodes, err := asked(t, agents, time.Minute, "a")
	if err == nil || err.Error() != "node n1: its agent is of an older version" || len(nodes[0]) != 2 {
		t.Errorf("%v, %v", nodes, err)
	}
	cluster.Nodes[0].API = silent.Addr().String()
	c = softchain.Connect(t, cluster)
	agents.Open(c)
	if _, err = asked(t, agents, 200*time.Millisecond, "a"); err == nil || !strings.Contains(err.Error(), "node n1: no answer in time") {
		t.Errorf("%v", err)
	}
}

// TestWhoIsAsked: the complete members of a key's chain are.
func TestWhoIsAsked(t *testing.T) {
	node := func(name string) client.Node { return client.Node{Name: name} }
	m := &client.Map{
		Nodes:   []client.Node{node("a"), node("b"), node("c"), node("d")},
		Chains:  []topology.MapChain{{Members: []int{2, 3, 0}, Learner: 1}},
		ByShard: []uint32{0},
	}
	var names []string
	for _, q := range questionsTo(m, []string{"k", "l", "", strings.Repeat("too long", 1000)}) {
		if names = append(names, q.node.Name); len(q.keys) != 2 || q.index[1] != 1 {
			t.Errorf("%s is asked %d keys", q.node.Name, len(q.keys))
		}
	}
	if got := strings.Join(names, " "); got != "a c" {
		t.Errorf("asked: %s", got)
	}
}
