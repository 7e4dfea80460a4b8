package operate

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/finding"
)

// TestDoctor examines a chain whose nodes answer, and an etcd that does not.
func TestDoctor(t *testing.T) {
	file := clitest.StartChain(t)
	find := func(want int, args ...string) map[string][]finding.State {
		t.Helper()
		out, code, err := clitest.Netcraq(append([]string{"doctor", "--plane", "soft", "--json"}, args...)...)
		var r doctorResult
		if code != want || json.Unmarshal([]byte(out), &r) != nil || (code == 0) != (r.Broken == 0) {
			t.Fatalf("exit status %d, want %d: %v, %s", code, want, err, out)
		}
		states := make(map[string][]finding.State)
		for _, f := range r.Findings {
			states[f.Check] = append(states[f.Check], f.State)
		}
		return states
	}
	states := find(cli.ExitBroken, "--cluster", file, "--etcd-endpoints", "http://127.0.0.1:1")
	if planes := states["data plane"]; len(planes) != 3 || planes[0] != finding.OK || planes[2] != finding.OK {
		t.Errorf("data planes: %v", planes)
	}
	if agents := states["agent"]; len(agents) != 3 || agents[0] != finding.Broken { // this chain has no agents
		t.Errorf("agents: %v", agents)
	}
	if etcd := states["etcd"]; len(etcd) != 1 || etcd[0] != finding.Broken {
		t.Errorf("etcd: %v", etcd)
	}
	if states := find(0); len(states["data plane"]) > 0 || len(states["wall clock"]) != 1 {
		t.Errorf("the host alone: %v", states)
	}
	for _, args := range [][]string{{"--plane", "p4"}, {"--cell-bytes", "0"}, {"--timeout", "0s"}} {
		if out, code, _ := clitest.Netcraq(append([]string{"doctor"}, args...)...); code != cli.ExitUsage {
			t.Errorf("%v: exit status %d, %s", args, code, out)
		}
	}
}

// TestDoctorIsInterrupted: a doctor that a user ends says nothing about controllers that had no time to answer.
func TestDoctorIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, _, err := clitest.Execute(ctx, newDoctorCommand(), "--plane", "soft", "--controllers", "127.0.0.1:1")
	if !errors.Is(err, context.Canceled) || out != "" {
		t.Errorf("%v, %s", err, out)
	}
}
