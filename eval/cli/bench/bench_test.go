package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// TestBenchRefusesWrongOptions expects usage errors before the benchmark makes anything.
func TestBenchRefusesWrongOptions(t *testing.T) {
	roottest.Need(t)
	for _, args := range [][]string{
		{"read", "--keys", "0"},
		{"read", "--seconds", "0"},
		{"distance", "--nodes", "9"},
		{"write", "--value-bytes", "1353"},
		{"mix", "--write-share", "1.5"},
		{"mix", "--target", "3"},
		{"latency", "--count", "0"},
		{"client", "--cpus", "0"},
		{"client", "--batch", "1025"},
		{"memory", "--keys", "-1"},
		{"line", "--protocol", "paxos"},
		{"line", "--nodes", "9"},
		{"line", "--target", "4"},
		{"line", "--value-bytes", "17"},
		{"line", "--dirty", "--write-share", "0.5"},
		{"line", "--loss", "101"},
		{"restart", "--keys", "-1"},
		{"restart", "--kills", "0"},
		{"restart", "--rate", "NaN"},
		{"latency", "--plane", "hard"},
		{"transactions", "--contention", "0"},
		{"transactions", "--clients", "0"},
		{"transactions", "--system", "oracle"},
		{"transactions", "--plane", "hard"},
		{"transactions", "--system", "netchain", "--plane", "hard"},
		{"peers", "oracle"},
		{"peers", "--op", "scan"},
		{"peers", "--seconds", "0"},
		{"peers", "--loss", "-1"},
		{"peers", "--peak", "--rate", "1000"},
		{"peers", "--op", "lock", "--pipeline", "2"},
		{"peers", "--members", "9"},
	} {
		if out, code, err := clitest.Netcraq(append([]string{"bench"}, args...)...); code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}

// TestBenchPeersComparesWithOurs compares NetCRAQ with itself, so that no other system has to be
// installed.
func TestBenchPeersComparesWithOurs(t *testing.T) {
	roottest.Need(t)
	out, code, err := clitest.Netcraq("bench", "peers", "netcraq", "--op", "cas", "--clients", "2",
		"--seconds", "0.3", "--json")
	var report struct {
		Results []struct {
			System      string  `json:"system"`
			PerSecond   float64 `json:"per_second"`
			P99us       float64 `json:"p99_us"`
			RatioToOurs float64 `json:"ratio_to_ours"`
		} `json:"results"`
		Settings map[string][]string `json:"settings"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil || len(report.Results) != 1 {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	r := report.Results[0]
	if r.System != "netcraq" || r.PerSecond <= 0 || r.P99us <= 0 || r.RatioToOurs != 1 ||
		len(report.Settings["netcraq"]) == 0 {
		t.Errorf("%+v", report)
	}
}

// TestBenchTransactions runs NetCRAQ's locks and NetChain's locks briefly.
func TestBenchTransactions(t *testing.T) {
	roottest.Need(t)
	for _, system := range []string{"netcraq", "netchain"} {
		out, code, err := clitest.Netcraq("bench", "transactions", "--system", system, "--contention", "0.1,1",
			"--clients", "3", "--items", "1000", "--seconds", "2", "--json")
		var report struct {
			System string `json:"system"`
			Runs   []struct {
				PerSecond  float64 `json:"transactions_per_s"`
				P99us      float64 `json:"p99_us"`
				Violations *int    `json:"violations"`
				HotItems   int     `json:"hot_items"`
			} `json:"runs"`
		}
		if code != 0 || json.Unmarshal([]byte(out), &report) != nil || len(report.Runs) != 2 || report.System != system {
			t.Fatalf("%s: exit status %d, %v, %q", system, code, err, out)
		}
		for _, r := range report.Runs {
			if r.PerSecond <= 0 || r.P99us <= 0 || r.Violations == nil || *r.Violations != 0 {
				t.Errorf("%s: %+v", system, r)
			}
		}
	}
}
