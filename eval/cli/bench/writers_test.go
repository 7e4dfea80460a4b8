package bench

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchWriters: every writer has a session of its own in each shard, and all have room.
func TestBenchWriters(t *testing.T) {
	t.Run(cli.PlaneSoft, func(t *testing.T) { testWriters(t, "--plane", cli.PlaneSoft) })
	t.Run(cli.PlaneXDP, func(t *testing.T) {
		testWriters(t, "--plane", cli.PlaneXDP, "--lab", clitest.LabName(t, "wr"))
	})
	if _, code, _ := clitest.Netcraq("bench", "writers", "--writers", "0"); code != cli.ExitUsage {
		t.Errorf("exit status %d without writers", code)
	}
}

func testWriters(t *testing.T, args ...string) {
	const writers, shards = 200, 32
	args = append(args, "--writers", strconv.Itoa(writers), "--shards", strconv.Itoa(shards), "--json")
	out, code, err := clitest.Netcraq(append([]string{"bench", "writers"}, args...)...)
	var r struct {
		Writers      int
		Writes       uint64
		Full         uint64
		Unknown      uint64
		SessionsUsed uint64 `json:"sessions_used"`
		MaxSessions  uint64 `json:"max_sessions"`
		Seconds      float64
	}
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	if r.Writers != writers || r.Full != 0 || r.Writes+r.Unknown != writers*shards || r.Seconds <= 0 {
		t.Errorf("%+v", r)
	}
	if r.SessionsUsed < r.Writes || r.SessionsUsed > r.MaxSessions { // each write is the first of its session
		t.Errorf("%d writes took %d of %d entries", r.Writes, r.SessionsUsed, r.MaxSessions)
	}
}
