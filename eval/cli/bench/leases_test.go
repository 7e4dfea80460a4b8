package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchLeases: both stores renew leases, the active gateway is killed, and nothing is lost.
func TestBenchLeases(t *testing.T) {
	needEtcd(t)
	out, code, err := clitest.Netcraq("bench", "leases", "--plane", "soft", "--nodes", "50", "--workers", "8",
		"--conns", "4", "--seconds", "0.5", "--rounds", "2", "--json")
	type window struct {
		UpdatesPerS  float64 `json:"updates_per_s"`
		P99Ms        float64 `json:"p99_ms"`
		LongestGapMs float64 `json:"longest_gap_ms"`
	}
	var r struct {
		window
		EtcdUpdatesPerS float64 `json:"etcd_updates_per_s"`
		Ratio           float64 `json:"ratio"`
		Lost            *int    `json:"lost"`
		CeilingPerS     float64 `json:"ceiling_per_s"`
		CPUus           float64 `json:"cpu_us"`
		EtcdCPUus       float64 `json:"etcd_cpu_us"`
		ClientCPUus     float64 `json:"client_cpu_us"`
		Killed          window  `json:"killed"`
		Rounds          []struct{ Gateway, Etcd window }
	}
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	if r.UpdatesPerS <= 0 || r.EtcdUpdatesPerS <= 0 || r.Ratio <= 0 || r.P99Ms <= 0 || len(r.Rounds) != 2 {
		t.Errorf("%+v", r)
	}
	if r.CeilingPerS <= 0 || r.CPUus <= 0 || r.EtcdCPUus <= 0 || r.ClientCPUus <= 0 {
		t.Errorf("the ceiling and the CPU time: %+v", r)
	}
	if r.Lost == nil || *r.Lost != 0 {
		t.Errorf("lost: %s", out)
	}
	if r.LongestGapMs != r.Killed.LongestGapMs || r.LongestGapMs <= 0 || r.Killed.UpdatesPerS <= 0 {
		t.Errorf("gap %v ms, %+v", r.LongestGapMs, r.Killed)
	}
}

func TestBenchLeasesRefusesWrongOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--nodes", "0"},
		{"--nodes", "10", "--workers", "11"},
		{"--workers", "0"},
		{"--conns", "0"},
		{"--members", "10"},
		{"--value-bytes", "0"},
		{"--seconds", "NaN"},
		{"--rounds", "0"},
	} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "leases"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}
