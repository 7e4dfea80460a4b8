package node

import (
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/node/agent"
)

// TestInspectReady: --ready fails for a node that is away or waits, and succeeds once it serves its shards.
func TestInspectReady(t *testing.T) {
	path := clusterFile(t, "n1", "n2")
	ready := func(name string) error {
		_, _, err := clitest.Execute(t.Context(), newInspectCommand(), "--ready", "--cluster", path, "--timeout", "1m", name)
		return err
	}
	if err := ready("n1"); err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("before its start: %v", err)
	}
	startNode(t, "--name", "n1", "--cluster", path, "--plane", "soft")
	await(t, "waiting for n2", func() bool {
		err := ready("n1")
		return err != nil && strings.Contains(err.Error(), "waits for n2")
	})
	startNode(t, "--name", "n2", "--cluster", path, "--plane", "soft")
	await(t, "ready with n2", func() bool { return ready("n1") == nil })
}

func TestUnready(t *testing.T) {
	serving := agent.Membership{LeaseLeftMS: 10}
	for name, c := range map[string]struct {
		report agent.Report
		want   string
	}{
		"in no cluster":  {agent.Report{}, ""},
		"leased":         {agent.Report{Membership: &serving}, ""},
		"without lease":  {agent.Report{Membership: &agent.Membership{}}, "no lease"},
		"refusing":       {agent.Report{Membership: &agent.Membership{LeaseLeftMS: 10, Refused: "full"}}, "full"},
		"copying":        {agent.Report{Membership: &serving, Chains: []agent.Chain{{Learner: true, Shards: []uint32{1, 2}}}}, "2 shards"},
		"without a port": {agent.Report{Membership: &serving, PortTrouble: "port eth0: there is no such interface"}, "port eth0"},
		"without answer": {agent.Report{Error: "no answer"}, "no answer"},
	} {
		if why := c.report.Unready(); (why == "") != (c.want == "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}
