package lab

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestCheckInLab runs competing clients in a real lab on a bad network, and expects the check to
// fail once a rule is disabled.
func TestCheckInLab(t *testing.T) {
	roottest.Need(t)
	for _, c := range []struct {
		plane, without string
		linearizable   bool
	}{
		{cli.PlaneXDP, "", true},
		{cli.PlaneSoft, "", true},
		{cli.PlaneXDP, "W2", false},
		{cli.PlaneXDP, "W8", false},
	} {
		args := []string{
			"lab", "check", "--name", "tcheck", "--seconds", "4", "--loss", "2", "--dup", "2", "--seed", "1",
			"--plane", c.plane, "--json",
		}
		status := 0
		if c.without != "" {
			args, status = append(args, "--without", c.without), cli.ExitError
		}
		out, code, err := clitest.Netcraq(args...)
		var r checkResult
		if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || code != status {
			t.Fatalf("%+v: exit status %d, %v, %v", c, code, jsonErr, err)
		}
		if r.Ops == 0 || r.Linearizable != c.linearizable {
			t.Errorf("%+v: %+v", c, r)
		}
		if c.plane == cli.PlaneSoft && r.Bundled == 0 {
			t.Errorf("%+v: no answer came in a bundle: %+v", c, r)
		}
		t.Logf("%s without %q: %d operations, linearizable: %v", c.plane, c.without, r.Ops, r.Linearizable)
	}
}
