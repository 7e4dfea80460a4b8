package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/platform/build"
)

func (c *cluster) startNodes(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.startNode(name)
	}
}

// fill writes keys, and check reads them.
func (c *cluster) fill(kv *client.Client, keys int, value string) {
	c.t.Helper()
	for i := range keys {
		if _, err := kv.Put(c.soon(), fmt.Sprint("key", i), []byte(value)); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) check(kv *client.Client, keys int, value string) {
	c.t.Helper()
	for i := range keys {
		got, err := kv.Get(c.soon(), fmt.Sprint("key", i))
		if err != nil || string(got.Value) != value {
			c.t.Fatalf("key %d is %q, %v, not %q", i, got.Value, err, value)
		}
	}
}

func TestClusterFormsAndSurvivesANode(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	kv := c.client()
	c.fill(kv, 100, "old")
	c.nodes["n2"].serving.end()
	c.fullyReplicated(2)
	c.check(kv, 100, "old")
	c.fill(kv, 100, "new")
	c.startNode("n4")
	c.fullyReplicated(3)
	c.check(kv, 100, "new")
}

// versionsKnown waits until the leader knows the versions of all nodes and controllers.
func (c *cluster) versionsKnown() {
	c.t.Helper()
	c.eventually("the versions of all nodes and controllers", func() bool {
		s := c.status()
		own := build.Name()
		return !slices.ContainsFunc(s.Nodes, func(n *controllerv1.NodeStatus) bool { return n.Version != own }) &&
			!slices.ContainsFunc(s.Controllers, func(p *controllerv1.ControllerStatus) bool { return p.Version != own })
	})
}

// TestLeadersEnd ends the leading controller, twice, under writes: nodes keep their leases, another leads and repairs.
func TestLeadersEnd(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.startNodes("n1", "n2", "n3", "n4")
	c.fullyReplicated(3)
	c.versionsKnown()
	kv := c.client()
	stop := make(chan struct{})
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(stop)
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := kv.Add(c.soon(), "counter", 1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var last uint64
	for _, victim := range []string{"n1", "n2"} {
		i := c.leader()
		last = max(last, c.status().GetTerm())
		c.stopController(i)
		next := c.leader()
		if term := c.status().GetTerm(); term <= last {
			t.Errorf("term %d after %d", term, last)
		}
		c.nodes[victim].serving.end()
		c.eventually("the node is out of all chains", func() bool {
			state := c.controllers[next].view.clone()
			return !slices.ContainsFunc(state.Shards, func(s reconfig.Shard) bool {
				return slices.ContainsFunc(s.Members, func(id reconfig.NodeID) bool { return state.Nodes[id].Name == victim })
			})
		})
		c.startNode(victim) // without its state
		c.fullyReplicated(3)
		c.startController(i)
		c.eventually("the controller is up to date", func() bool {
			return c.controllers[i].view.change() == c.controllers[next].view.change()
		})
	}
}

// TestAllControllersAwayAndBack: without controllers no node may answer, and nothing is lost.
func TestAllControllersAwayAndBack(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	kv := c.client()
	c.fill(kv, 50, "kept")
	cluster := c.status().GetCluster()
	c.stopController(0)
	c.startController(0)
	c.fullyReplicated(3)
	if s := c.status(); s.GetCluster() != cluster {
		t.Errorf("the cluster is %s, not %s", s.GetCluster(), cluster)
	}
	c.check(kv, 50, "kept")
}

func TestMapFollowsOnEveryController(t *testing.T) {
	c := newCluster(t, 3, slack())
	c.startNodes("n1", "n2", "n3")
	c.fullyReplicated(3)
	var streams []controllerv1.Controller_MapClient
	for i := range c.controllers {
		stream, err := c.dial(i).Map(c.soon(), &controllerv1.MapRequest{})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	c.nodes["n3"].serving.end()
	for i, stream := range streams {
		var version uint64
		for short := false; !short; {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(i, err)
			}
			if m.GetVersion() <= version {
				t.Errorf("controller %d: version %d after %d", i, m.GetVersion(), version)
			}
			version, short = m.GetVersion(), true
			shards := 0
			for _, chain := range m.GetChains() {
				short = short && len(chain.GetMembers()) == 2
				shards += len(chain.GetShards()) / 2
			}
			if shards != int(m.GetShards()) {
				t.Fatalf("controller %d: %d shards of %d have a chain", i, shards, m.GetShards())
			}
		}
	}
}

// TestOthersSendToTheLeader: a controller that does not lead names the leader.
func TestOthersSendToTheLeader(t *testing.T) {
	c := newCluster(t, 3, slack())
	leads := c.leader()
	for i := range c.controllers {
		if i == leads {
			continue
		}
		c.eventually("the other knows the leader", func() bool {
			led, _ := c.controllers[i].view.led()
			return led.Address == c.addresses[leads]
		})
		_, err := c.dial(i).Operate(c.soon(), &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}})
		said := status.Convert(err)
		if said.Code() != codes.FailedPrecondition || len(said.Details()) != 1 {
			t.Fatal(err)
		}
		if leader, ok := said.Details()[0].(*controllerv1.Leader); !ok || leader.GetAddress() != c.addresses[leads] {
			t.Errorf("the leader is %v, not %s", said.Details(), c.addresses[leads])
		}
	}
}

func TestPlanAndOperate(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.startNodes("n1", "n2", "n3", "n4")
	c.fullyReplicated(3)
	api, ctx := c.dial(c.leader()), c.soon()
	drain := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}
	plan, err := api.Plan(ctx, drain)
	if err != nil || plan.GetShardsMoved() == 0 {
		t.Fatal(plan, err)
	}
	for _, move := range plan.GetMoves() {
		if slices.Contains(move.GetAfter(), "n1") || !slices.Contains(move.GetBefore(), "n1") {
			t.Errorf("the plan for n1's leaving moves %v to %v", move.GetBefore(), move.GetAfter())
		}
	}
	if _, err := api.Operate(ctx, drain); err != nil {
		t.Fatal(err)
	}
	c.eventually("n1 has nothing", func() bool {
		for _, n := range c.status().GetNodes() {
			if n.GetName() == "n1" {
				return n.GetShards() == 0
			}
		}
		return false
	})
	for _, bad := range []*controllerv1.OperateRequest{
		{}, {Kind: &controllerv1.OperateRequest_Drain{Drain: "n9"}}, {Kind: &controllerv1.OperateRequest_Replicas{Replicas: 9}},
		{Kind: &controllerv1.OperateRequest_AcceptLoss{AcceptLoss: 1 << 20}},
		{Kind: &controllerv1.OperateRequest_Add{Add: &controllerv1.NodeSpec{Name: "n5"}}},
	} {
		before := c.controllers[0].view.change()
		if _, err := api.Operate(ctx, bad); err == nil || c.controllers[0].view.change() != before {
			t.Errorf("%v: %v, change %d after %d", bad, err, c.controllers[0].view.change(), before)
		}
	}
}

// TestNodesOfAnotherCluster: they are refused, with advice.
func TestNodesOfAnotherCluster(t *testing.T) {
	c := newCluster(t, 1, slack())
	c.leader()
	stream, err := c.dial(0).Attend(c.soon())
	if err != nil {
		t.Fatal(err)
	}
	registration := &controllerv1.Hello{Name: "n1", Addr: "127.1.8.1:1", Incarnation: rand.Uint64() | 1, Shards: 16,
		CellBytes: 64, Cluster: "other"}
	if err := stream.Send(&controllerv1.NodeMessage{Kind: &controllerv1.NodeMessage_Hello{Hello: registration}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || !strings.Contains(answer.GetRefusal(), "belongs to another cluster") {
		t.Error(answer, err)
	}
}
