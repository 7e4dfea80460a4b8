package operate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/finding"
	"github.com/netcraq/netcraq/wire"
)

// TestStatusOfAStaticChain shows a chain without controllers, whole, and refuses what only controllers can do.
func TestStatusOfAStaticChain(t *testing.T) {
	cluster := twoNodes(t)
	file := clitest.WriteCluster(t, cluster)
	m := &clitest.Managed{T: t}
	for _, n := range cluster.Nodes {
		m.Run(n.Name, "node", "--name", n.Name, "--cluster", file, "--plane", "soft")
	}
	for begun := time.Now(); ; {
		_, status, err := clitest.Netcraq("inspect", "--ready", "--cluster", file)
		if status == 0 {
			break
		}
		if time.Since(begun) > clitest.Formed {
			t.Fatal(err)
		}
	}
	var s admin.Snapshot
	if err := json.Unmarshal([]byte(clitest.MustRun(t, "status", "--cluster", file, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	whole := admin.ShardCounts{Total: uint32(cluster.Shards), FullyReplicated: uint32(cluster.Shards)}
	if !s.Static || s.Epoch != cluster.Epoch || s.Shards != whole || len(s.Nodes) != len(cluster.Nodes) {
		t.Errorf("%+v", s)
	}
	heads := uint32(0)
	for _, n := range s.Nodes {
		if heads += n.Heads; n.Standing != "up" || n.Trouble != "" {
			t.Errorf("%+v", n)
		}
	}
	if heads != uint32(cluster.Shards) {
		t.Errorf("%d shards have a head", heads)
	}
	for _, command := range []string{"status", "top"} {
		if text := clitest.MustRun(t, command, "--cluster", file); !strings.HasPrefix(text, "static chain  epoch 7\n") ||
			strings.Contains(text, "controllers") {
			t.Errorf("%s prints %q", command, text)
		}
	}
	var found doctorResult
	if err := json.Unmarshal([]byte(clitest.MustRun(t, "doctor", "--plane", "soft", "--cluster", file, "--json")), &found); err != nil {
		t.Fatal(err)
	}
	ways := slices.DeleteFunc(found.Findings, func(f finding.Finding) bool { return f.Check != "way between nodes" })
	if len(ways) != 2 || ways[0].Text != "answers from n2" || ways[1].Text != "answers from n1" {
		t.Errorf("doctor's ways between the nodes: %+v", ways)
	}
	_, status, err := clitest.Netcraq("drain", "n1", "--cluster", file)
	if status != cli.ExitError || err == nil || !strings.Contains(err.Error(), "netcraq inspect") {
		t.Errorf("drain: status %d: %v", status, err)
	}
}

// TestStaticChainIsAway says why no agent of a static chain answers.
func TestStaticChainIsAway(t *testing.T) {
	file := clitest.WriteCluster(t, twoNodes(t))
	text, status, err := clitest.Netcraq("status", "--cluster", file)
	if status != cli.ExitError || err == nil || !strings.Contains(err.Error(), "no agent answered") ||
		!strings.Contains(err.Error(), "nothing answers there: is it running?") {
		t.Errorf("status %d: %v", status, err)
	}
	if !strings.Contains(text, "2 down") || !strings.Contains(text, "no answer") {
		t.Error(text)
	}
}

// twoNodes is a chain of two nodes that do not run.
func twoNodes(t *testing.T) *topology.Cluster {
	t.Helper()
	text := "epoch: 7\nshards: 2\nnodes: [{name: n1, addr: 127.3.8.20:4411}, {name: n2, addr: 127.3.8.21:4411}]\nchains: [[n1, n2]]\n"
	c, err := topology.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStaticSnapshot(t *testing.T) {
	c := twoNodes(t)
	members := []string{"127.3.8.20:4411", "127.3.8.21:4411"}
	report := func(i int, clean, ordered uint64) *agent.Report {
		return &agent.Report{
			Name: c.Nodes[i].Name, Addr: members[i],
			Chains: []agent.Chain{{State: chain.Active.String(), Members: members, Shards: []uint32{0, 1}}},
			Counters: []agent.Count{
				{Op: "READ", Outcome: wire.OutcomeAnsweredClean.String(), Messages: clean},
				{Op: "PUT", Outcome: wire.OutcomeOrdered.String(), Messages: ordered},
				{Op: "READ", Outcome: wire.OutcomeBusy.String(), Messages: 1000 * clean},
			},
		}
	}
	away := &agent.Report{Name: "n2", Error: "it is away"}
	before := []*agent.Report{report(0, 100, 10), report(1, 50, 0)}
	for _, test := range []struct {
		name   string
		now    []*agent.Report
		before []*agent.Report
		shards admin.ShardCounts
		loads  [2][2]uint64 // of each node: reads, writes
	}{
		{"first look", before, nil, admin.ShardCounts{Total: 2, FullyReplicated: 2}, [2][2]uint64{}},
		{"second", []*agent.Report{report(0, 300, 30), report(1, 60, 0)}, before, admin.ShardCounts{Total: 2, FullyReplicated: 2},
			[2][2]uint64{{100, 10}, {5, 0}}},
		{"one began anew", []*agent.Report{report(0, 300, 30), report(1, 1, 0)}, before, admin.ShardCounts{Total: 2, FullyReplicated: 2},
			[2][2]uint64{{100, 10}, {0, 0}}},
		{"one is away", []*agent.Report{report(0, 300, 30), away}, before, admin.ShardCounts{Total: 2, UnderReplicated: 2},
			[2][2]uint64{{100, 10}, {0, 0}}},
		{"all are", []*agent.Report{{Name: "n1", Error: "it is away"}, away}, before, admin.ShardCounts{Total: 2, Down: 2}, [2][2]uint64{}},
	} {
		s := staticSnapshot(c, test.now, test.before, 2*time.Second)
		if short := s.Shards.UnderReplicated > 0; short != (len(s.Notes) > 0) {
			t.Errorf("%s: notes %q", test.name, s.Notes)
		}
		if s.Shards != test.shards || s.Epoch != 7 || s.Replicas != 2 {
			t.Errorf("%s: %+v", test.name, s)
		}
		for i, want := range test.loads {
			if n := s.Nodes[i]; n.Reads != want[0] || n.Writes != want[1] {
				t.Errorf("%s: node %s has %d reads and %d writes a second, want %v", test.name, n.Name, n.Reads, n.Writes, want)
			}
		}
	}
	waiting := report(0, 0, 0)
	waiting.WaitingFor, waiting.Chains = []string{"n2"}, nil
	if n := staticNode(waiting, nil); n.Standing != "waiting" || n.Trouble != "it waits for n2" {
		t.Errorf("%+v", n)
	}
}
