package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

func TestBenchKeyspace(t *testing.T) {
	roottest.Need(t)
	needEtcd(t)
	out, code, err := clitest.Netcraq("bench", "keyspace", "--dir", t.TempDir(), "--clients", "8", "--conns", "3", "--keys", "200",
		"--seconds", "0.2", "--rounds", "1", "--watchers", "50", "--json")
	report := make(map[string]json.RawMessage)
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for _, name := range []string{
		"put_ratio", "put_p50_ratio", "put_cpu_ratio", "txn_ratio", "range_ratio", "range_cpu_ratio", "list_ratio", "mixed_ratio",
		"watch_fanout_ratio",
	} {
		var value float64
		if err := json.Unmarshal(report[name], &value); err != nil || value <= 0 || value > 1000 {
			t.Errorf("%s is %s: %v", name, report[name], err)
		}
	}
	var loads []struct {
		Name string
		Ours struct{ Errors int } `json:"member"`
	}
	if err := json.Unmarshal(report["loads"], &loads); err != nil || len(loads) != 8 {
		t.Fatalf("loads are %s: %v", report["loads"], err)
	}
	for _, l := range loads {
		if l.Ours.Errors > 0 {
			t.Errorf("%s: %d errors", l.Name, l.Ours.Errors)
		}
	}
}

func TestBenchKeyspaceRefusesWrongOptions(t *testing.T) {
	for _, args := range [][]string{{"--seconds", "0"}, {"--keys", "150"}, {"--conns", "2"}, {"--fill", "much"}, {"--fill", "1kB"},
		{"--kills", "-1"}, {"--watchers", "-1"}, {"--kills", "1", "--fill", "8MiB"}, {"--beside", "mem_etcd"}} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "keyspace"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}

func TestFillKeyspace(t *testing.T) {
	roottest.Need(t)
	out, code, err := clitest.Netcraq("bench", "keyspace", "--fill", "8MiB", "--gateways", "1", "--dir", t.TempDir(), "--json")
	var report struct {
		Ratio    float64 `json:"resident_ratio"`
		Restart  float64 `json:"restart_seconds"`
		Stored   int64   `json:"stored_bytes"`
		Resident []int64 `json:"resident_bytes"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	if report.Ratio < 1 || report.Restart <= 0 || report.Stored < 8e6 || len(report.Resident) != 1 || report.Resident[0] < report.Stored {
		t.Errorf("%+v", report)
	}
}
