package lab

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/verify/chaos"
)

// TestChurn is the short form of `netcraq lab churn`, on the kernel's data plane, with agents that are killed
// meanwhile. Where nothing is collected, half of the writes find no room. A disk that delays etcd for longer than half
// of a table lasts costs some: a tenth is allowed.
func TestChurn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	out, _, err := clitest.Netcraq("lab", "churn", "--name", clitest.LabName(t, "u"), "--times", "2", "--objects", "20000",
		"--rate", "2000", "--shards", "16", "--nodes", "2", "--replicas", "2", "--controllers", "1", "--json",
		"--beat", "50ms", "--suspect", "5s", "--lease", "6s", "--kill-agents", "3s")
	var r chaos.ChurnResult
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil {
		t.Fatalf("%v, %v", jsonErr, err)
	}
	if r.Keys < 40_000 || r.Killed == 0 || r.Full > r.Keys/10 || !r.Linearizable || r.Full == 0 && err != nil {
		t.Errorf("%+v, %v", r, err)
	}
	t.Logf("%d keys, %d operations, %d without room, %d of unknown outcome, %.1f s", r.Keys, r.Ops, r.Full, r.Unknown, r.Seconds)
}
