package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cluster/admin"
	"github.com/netcraq/netcraq/internal/cluster/drill"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// ask runs a command to its end and returns what it says and its exit status.
func (m *managed) ask(args ...string) (said, complained string, status int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), formed)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], append(args, "--controllers", m.controller)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if ran := cmd.Run(); ran != nil && !errors.As(ran, &exit) {
		m.t.Fatal(ran)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// object runs a command with --json and reads what it prints.
func object[T any](m *managed, args ...string) (v T) {
	m.t.Helper()
	said, complained, status := m.ask(append(args, "--json")...)
	if status != 0 {
		m.t.Fatalf("netcraq %s: status %d: %s", strings.Join(args, " "), status, complained)
	}
	decoder := json.NewDecoder(strings.NewReader(said))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		m.t.Fatalf("netcraq %s: %v: %s", strings.Join(args, " "), err, said)
	}
	return v
}

// TestOperators: everything that an operator can ask for, on a cluster that lives, and what the plans for it say before.
func TestOperators(t *testing.T) {
	m := startManaged(t, "127.1.7.1", "--shards", "16", "--form-with", "4")
	for i := range 4 {
		m.startNode(fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.1.7.%d:4411", 11+i))
	}
	m.await("the first chains", whole(3))

	plan := object[admin.Plan](m, "plan", "drain", "n2")
	at := slices.IndexFunc(plan.Nodes, func(n admin.NodePlan) bool { return n.Name == "n2" })
	if at < 0 || plan.Nodes[at].ShardsAfter != 0 || plan.CopiesMoved != plan.Nodes[at].ShardsBefore || plan.Copies != 48 {
		t.Errorf("the plan to drain n2: %+v", plan)
	}
	object[map[string]any](m, "drain", "n2", "--wait")
	if serves(m.follower.Map(), "n2") {
		m.await("n2 is in no chain", whole(3))
	}
	status := object[admin.Snapshot](m, "status")
	n2, ok := status.Node("n2")
	if !ok || n2.Standing != "draining" || n2.Shards != 0 || status.Shards.Whole != 16 || status.Leader != m.controller {
		t.Errorf("after the drain: %+v", status)
	}

	object[map[string]any](m, "undrain", "n2", "--wait")
	object[map[string]any](m, "replicas", "2", "--wait")
	m.await("chains of two", whole(2))
	now := m.follower.Map()
	chain := now.Names(now.Chain(0))
	to := slices.IndexFunc(now.Nodes, func(n topology.Node) bool { return !slices.Contains(chain, n.Name) })
	object[map[string]any](m, "move", "--shard", "0", "--from", chain[0], "--to", now.Nodes[to].Name, "--wait")
	if said, complained, status := m.ask("top"); status != 0 || strings.Count(said, "\n") < 8 || !strings.Contains(said, "16 whole") {
		t.Errorf("top without a terminal: status %d: %s%s", status, said, complained)
	}

	kill(m.nodes["n1"])
	m.await("the chains are whole without n1", func(now *topology.Map) bool { return whole(2)(now) && !serves(now, "n1") })
	if _, complained, status := m.ask("drain", "n1"); status != 0 {
		t.Errorf("draining a dead node: %s", complained)
	}
	if _, complained, status := m.ask("remove-node", "n1"); status != 0 {
		t.Errorf("removing a dead node: %s", complained)
	}
	if status := object[admin.Snapshot](m, "status"); len(status.Nodes) != 3 {
		t.Errorf("%+v", status.Nodes)
	}
}

func TestOperatorsAreToldWhatIsWrong(t *testing.T) {
	m := startManaged(t, "127.1.8.1", "--shards", "4", "--replicas", "1")
	m.startNode("n1", "127.1.8.11:4411")
	m.await("the first chains", whole(1))
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"drain nobody", exitError, `no node "nobody"`},
		{"drain n1", exitError, "let another join first"},
		{"remove-node n1", exitError, "drain it first"},
		{"undrain nobody", exitError, `no node "nobody"`},
		{"replicas 0", exitUsage, "1 to 8 members"},
		{"replicas 9", exitUsage, "1 to 8 members"},
		{"move --shard 0 --from n1", exitUsage, "--from and --to"},
		{"move --shard 4 --from n1 --to n2", exitError, "4"},
		{"accept-loss 3 --yes", exitError, "not lost"},
		{"accept-loss 3", exitUsage, "--yes"},
		{"accept-loss x --yes", exitUsage, `not "x"`},
		{"plan drain nobody", exitError, `no node "nobody"`},
		{"plan replicas 9", exitUsage, "1 to 8 members"},
		{"status --timeout 0s", exitUsage, "--timeout must be positive"},
	} {
		if _, complained, status := m.ask(strings.Fields(c.args)...); status != c.status || !strings.Contains(complained, c.says) {
			t.Errorf("netcraq %s: status %d, not %d with %q: %s", c.args, status, c.status, c.says, complained)
		}
	}
	if said, _, status := m.ask("plan", "add"); status != 0 || !strings.Contains(said, "Adding node new") {
		t.Errorf("plan add: status %d: %s", status, said)
	}
}

func TestSimulatedPlan(t *testing.T) {
	cmd := exec.Command(os.Args[0], "plan", "--simulate", "--nodes", "50", "--shards", "1024", "--json")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var r drill.Result
	if err := json.Unmarshal(out, &r); err != nil || r.PlanS <= 0 || r.MovedFraction < 0.01 || r.MovedFraction > 0.03 {
		t.Errorf("%v: %s", err, out)
	}
	cmd = exec.Command(os.Args[0], "plan", "--simulate", "--nodes", "3", "--shards", "1000")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	if said, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != exitUsage {
		t.Errorf("1,000 shards: %v: %s", err, said)
	}
}
