package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchStale pauses the leader of an etcd that asks its followers before it answers reads, and one that reads
// through a chain: no read of either is stale.
func TestBenchStale(t *testing.T) {
	needEtcd(t)
	path, err := etcd.Find()
	if err != nil {
		t.Fatal(err)
	}
	out, code, err := clitest.Netcraq("bench", "stale", "--plane", "soft", "--rounds", "1", "--etcd", path, "--json")
	var report staleBench
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil || len(report.Systems) != 2 {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for i, n := range report.Systems {
		if n.Rounds != 1 || n.Reads == 0 || n.Stale != 0 || n.StaleRounds != 0 || (n.Fast > 0) != (i == 1) {
			t.Errorf("%+v", n)
		}
	}
}
