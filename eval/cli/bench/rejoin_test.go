package bench_test

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestBenchRejoin: a node that kept its state copies less than the same node without it. Long time limits keep the other
// nodes of a loaded machine in their chains.
func TestBenchRejoin(t *testing.T) {
	roottest.Need(t)
	out := clitest.MustRun(t, "bench", "rejoin", "--name", clitest.LabName(t, "r"), "--objects", "3000", "--shards", "16",
		"--beat", "20ms", "--suspect", "500ms", "--lease", "600ms", "--json")
	var r struct {
		Copied     uint64 `json:"bytes_copied"`
		FullCopied uint64 `json:"full_copy_bytes"`
		Changed    int    `json:"changed"`
		ShardsLeft int    `json:"shards_left"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err, out)
	}
	if r.Changed == 0 || r.ShardsLeft != 16 || r.Copied == 0 || r.Copied >= r.FullCopied {
		t.Errorf("%s", out)
	}
}
