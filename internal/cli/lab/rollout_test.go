package lab

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/chaos"
)

// TestRollout is the short form of `netcraq lab rollout`, on the kernel's data plane: agents announce their end, and
// the leader releases them. Times that depend on the machine are logged; TestAgentsEndBetweenChanges has the reason why
// no write waits.
func TestRollout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 30 s")
	}
	out, _, err := clitest.Netcraq("lab", "rollout", "--name", clitest.LabName(t, "o"), "--rounds", "1", "--away", "0s",
		"--rest", "0s", "--shards", "16", "--objects", "200", "--writers", "4", "--readers", "2", "--seed", "1", "--json",
		"--beat", "50ms", "--suspect", "5s", "--lease", "6s")
	var r chaos.RolloutResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil || err != nil {
		t.Fatalf("%v, %v", jsonErr, err)
	}
	if r.Replaced != 4 || r.Released == 0 || !r.Linearizable || r.Writes == 0 || r.Reads == 0 || r.FailedWrites+r.FailedReads > 0 {
		t.Errorf("%+v", r)
	}
	t.Logf("%d of %d agents released; longest write %.0f ms, longest read %.0f ms, %d nodes suspected, %d changes", r.Released,
		r.Replaced, r.LongestWriteMs, r.LongestReadMs, r.Suspected, r.Changes)
}
