package operate

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/drill"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// TestOperators makes every change that an operator can request on a live cluster, and compares each with its plan.
func TestOperators(t *testing.T) {
	m := clitest.StartManaged(t, "127.3.7.1", "--shards", "16", "--form-with", "4")
	for i := range 4 {
		m.StartNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.3.7.%d:4411", 11+i))
	}
	m.Await("the first chains", clitest.FullyReplicated(3))

	plan := clitest.Object[admin.Plan](m, "plan", "drain", "n2")
	at := slices.IndexFunc(plan.Nodes, func(n admin.NodePlan) bool { return n.Name == "n2" })
	if at < 0 || plan.Nodes[at].ShardsAfter != 0 || plan.CopiesMoved != plan.Nodes[at].ShardsBefore || plan.Copies != 48 {
		t.Errorf("the plan to drain n2: %+v", plan)
	}
	clitest.Object[map[string]any](m, "drain", "n2", "--wait")
	if clitest.Serves(m.Follower.Map(), "n2") {
		m.Await("n2 is in no chain", clitest.FullyReplicated(3))
	}
	status := clitest.Object[admin.Snapshot](m, "status")
	n2, ok := status.Node("n2")
	if !ok || n2.Standing != "draining" || n2.Shards != 0 || status.Shards.FullyReplicated != 16 ||
		status.Leader != m.Controller {
		t.Errorf("after the drain: %+v", status)
	}

	clitest.Object[map[string]any](m, "undrain", "n2", "--wait")
	clitest.Object[map[string]any](m, "replicas", "2", "--wait")
	m.Await("chains of two", clitest.FullyReplicated(2))
	now := m.Follower.Map()
	chain := now.Names(now.Chain(0))
	to := slices.IndexFunc(now.Nodes, func(n topology.Node) bool { return !slices.Contains(chain, n.Name) })
	clitest.Object[map[string]any](m, "move", "--shard", "0", "--from", chain[0], "--to", now.Nodes[to].Name, "--wait")
	if said, complained, status := m.Ask("top"); status != 0 || strings.Count(said, "\n") < 8 ||
		!strings.Contains(said, "16 whole") {
		t.Errorf("top without a terminal: status %d: %s%s", status, said, complained)
	}

	clitest.Kill(m.Nodes["n1"])
	m.Await("the chains are fully replicated without n1", func(now *topology.Map) bool {
		return clitest.FullyReplicated(2)(now) && !clitest.Serves(now, "n1")
	})
	if _, complained, status := m.Ask("drain", "n1"); status != 0 {
		t.Errorf("draining a dead node: %s", complained)
	}
	if _, complained, status := m.Ask("remove-node", "n1"); status != 0 {
		t.Errorf("removing a dead node: %s", complained)
	}
	if status := clitest.Object[admin.Snapshot](m, "status"); len(status.Nodes) != 3 {
		t.Errorf("%+v", status.Nodes)
	}
}

func TestOperatorsAreToldWhatIsWrong(t *testing.T) {
	m := clitest.StartManaged(t, "127.3.8.1", "--shards", "4", "--replicas", "1")
	m.StartNode("n1", "127.3.8.11:4411")
	m.Await("the first chains", clitest.FullyReplicated(1))
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"drain nobody", cli.ExitError, `no node "nobody"`},
		{"drain n1", cli.ExitError, "let another join first"},
		{"remove-node n1", cli.ExitError, "drain it first"},
		{"undrain nobody", cli.ExitError, `no node "nobody"`},
		{"replicas 0", cli.ExitUsage, "1 to 8 members"},
		{"replicas 9", cli.ExitUsage, "1 to 8 members"},
		{"move --shard 0 --from n1", cli.ExitUsage, "--from and --to"},
		{"move --shard 4 --from n1 --to n2", cli.ExitError, "4"},
		{"accept-loss 3 --yes", cli.ExitError, "not lost"},
		{"accept-loss 3", cli.ExitUsage, "--yes"},
		{"accept-loss all", cli.ExitUsage, "--yes"},
		{"accept-loss all --yes", cli.ExitError, "no shard is lost"},
		{"accept-loss x --yes", cli.ExitUsage, `not "x"`},
		{"plan drain nobody", cli.ExitError, `no node "nobody"`},
		{"plan drain n1", cli.ExitError, "let another join first"},
		{"plan remove n1", cli.ExitError, "let another join first"},
		{"plan undrain n1", cli.ExitError, "is not being drained"},
		{"replicas 2", cli.ExitError, "let others join first"},
		{"plan replicas 2", cli.ExitError, "let others join first"},
		{"plan replicas 9", cli.ExitUsage, "1 to 8 members"},
		{"status --timeout 0s", cli.ExitUsage, "--timeout must be positive"},
	} {
		if _, complained, status := m.Ask(strings.Fields(c.args)...); status != c.status ||
			!strings.Contains(complained, c.says) {
			t.Errorf("netcraq %s: status %d, not %d with %q: %s", c.args, status, c.status, c.says, complained)
		}
	}
	if said, _, status := m.Ask("plan", "add"); status != 0 || !strings.Contains(said, "Adding node new") {
		t.Errorf("plan add: status %d: %s", status, said)
	}
}

// TestPlanIsTheGuides runs the nodes of docs/cluster.md and expects from `plan add` the numbers that the guide shows.
func TestPlanIsTheGuides(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(guide), "$ netcraq plan add ")
	flags, shown, _ := strings.Cut(shown, "\n")
	want, _, _ := strings.Cut(shown, "\n")
	if !found || want == "" {
		t.Fatal("the guide shows no plan")
	}
	// All four form the first chains, and no pause under load counts as a failure: later moves end within a slack.
	m := clitest.StartManaged(t, "127.3.11.1", "--form-with", "4", "--suspect", "10s",
		"--suspect-max", "10s", "--sure", "20s")
	nodes := 0
	for zone := range strings.SplitSeq("a b c d", " ") {
		nodes++
		name := fmt.Sprintf("n%d", nodes)
		m.Nodes[name] = m.Run(name, "node", "--name", name, "--addr", fmt.Sprintf("127.3.11.%d:4411", 10+nodes),
			"--join", m.Controller, "--plane", "soft", "--labels", "zone="+zone)
	}
	m.Await("all nodes have their share", func(now *topology.Map) bool {
		serves := make(map[string]int)
		for shard := range now.Shards() {
			for _, name := range now.Names(now.Chain(uint16(shard))) {
				serves[name]++
			}
		}
		for _, n := range serves {
			if n != now.Shards()*3/nodes {
				return false
			}
		}
		return len(serves) == nodes && clitest.FullyReplicated(3)(now)
	})
	said, complained, status := m.Ask(append([]string{"plan", "add"}, strings.Fields(flags)...)...)
	if got, _, _ := strings.Cut(said, "\n"); status != 0 || got != want {
		t.Errorf("status %d: %q, and the guide shows %q: %s", status, got, want, complained)
	}
}

func TestSimulatedPlan(t *testing.T) {
	cmd := exec.Command(os.Args[0], "plan", "--simulate", "--nodes", "50", "--shards", "1024", "--json")
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r drill.Result
	if err := json.Unmarshal(out, &r); err != nil || r.PlanS <= 0 || r.MovedFraction < 0.01 || r.MovedFraction > 0.03 {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(os.Args[0], "plan", "--simulate", "--nodes", "3", "--shards", "1000")
	cmd.Env = append(os.Environ(), clitest.AsCommand+"=1")
	if said, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != cli.ExitUsage {
		t.Errorf("1,000 shards: %v: %s", err, said)
	}
}

// TestSettings: the times change while the cluster runs, and invalid ones are refused.
func TestSettings(t *testing.T) {
	m := clitest.StartManaged(t, "127.3.10.1", "--shards", "4", "--replicas", "1", "--suspect",
		"400ms", "--lease", "600ms")
	m.StartNode("n1", "127.3.10.11:4411")
	m.Await("the first chains", clitest.FullyReplicated(1))
	before := clitest.Object[map[string]any](m, "settings")
	if before["shards"] != 4.0 || before["times"].(map[string]any)["suspect_ms"] != 400.0 {
		t.Errorf("%+v", before)
	}
	after := clitest.Object[map[string]any](m, "settings", "--suspect", "450ms", "--beat", "20ms")
	if times := after["times"].(map[string]any); times["suspect_ms"] != 450.0 || times["beat_ms"] != 20.0 ||
		times["lease_ms"] != 600.0 {
		t.Errorf("%+v", after)
	}
	if said, _, status := m.Ask("settings"); status != 0 || !strings.Contains(said, "450ms") ||
		!strings.Contains(said, "fixed when the cluster is formed") {
		t.Errorf("status %d: %s", status, said)
	}
	for args, want := range map[string]struct {
		status int
		says   string
	}{
		"settings --lease 1ms":       {cli.ExitError, "when one heartbeat is late"},
		"settings --lease 0s":        {cli.ExitUsage, "positive"},
		"settings --suspect-max 1ms": {cli.ExitError, "below --suspect"},
	} {
		if _, complained, status := m.Ask(strings.Fields(args)...); status != want.status ||
			!strings.Contains(complained, want.says) {
			t.Errorf("%s: status %d: %s", args, status, complained)
		}
	}
}
