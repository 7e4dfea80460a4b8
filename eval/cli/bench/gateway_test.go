package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchGateway runs the comparison briefly on real members, a real gateway and nodes on sockets. Rates depend on the machine, so
// it expects answers only, and that the chain gave those to reads of hot keys.
func TestBenchGateway(t *testing.T) {
	needEtcd(t)
	profile := filepath.Join(t.TempDir(), "profile")
	out, code, err := clitest.Netcraq("bench", "gateway", "--plane", "soft", "--clients", "8", "--conns", "3", "--zipf-keys", "100",
		"--seconds", "0.2", "--rounds", "2", "--profile", profile, "--json")
	report := make(map[string]json.RawMessage)
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for _, name := range []string{
		"hot_range_ratio", "hot_p50_ratio", "zipf_range_ratio", "put_ratio", "txn_ratio", "placed_put_p50_ratio", "hit_share",
		"probe_ratio", "mixed_1_ratio", "mixed_10_ratio", "mixed_50_ratio",
	} {
		var value float64
		if err := json.Unmarshal(report[name], &value); err != nil || value <= 0 || value > 1000 {
			t.Errorf("%s is %s: %v", name, report[name], err)
		}
	}
	var added *float64
	if err := json.Unmarshal(report["watch_added_ms"], &added); err != nil || added == nil {
		t.Errorf("watch_added_ms is %s: %v", report["watch_added_ms"], err)
	}
	var watch struct{ Events int }
	if err := json.Unmarshal(report["watch"], &watch); err != nil || watch.Events == 0 {
		t.Errorf("watch is %s: %v", report["watch"], err)
	}
	type window struct {
		PerSecond float64                                         `json:"per_second"`
		P50ms     float64                                         `json:"p50_ms"`
		P99ms     float64                                         `json:"p99_ms"`
		HitShare  float64                                         `json:"hit_share"`
		CPU       struct{ Gateway, Etcd, Clients, Chain float64 } `json:"cpu_us"`
	}
	var loads []struct {
		Name          string
		Gateway, Etcd window
		Rounds        []json.RawMessage
	}
	if err := json.Unmarshal(report["loads"], &loads); err != nil || len(loads) != 9 {
		t.Fatalf("loads are %s: %v", report["loads"], err)
	}
	var etcd, clients float64 // over all loads: a request may take less than the kernel's unit of CPU time
	for _, l := range loads {
		for side, w := range map[string]window{"gateway": l.Gateway, "etcd": l.Etcd} {
			if w.PerSecond <= 0 || w.P50ms <= 0 || w.P99ms < w.P50ms || len(l.Rounds) != 2 {
				t.Errorf("%s, %s: %+v in %d rounds", l.Name, side, w, len(l.Rounds))
			}
			if c := w.CPU; c.Gateway < 0 || c.Etcd < 0 || c.Clients < 0 || c.Chain < 0 {
				t.Errorf("%s, %s: CPU times %+v", l.Name, side, c)
			}
			etcd, clients = etcd+w.CPU.Etcd, clients+w.CPU.Clients
		}
		mixed := strings.Contains(l.Name, "%") // how many of its reads are hits depends on the rates
		if hits := !strings.HasSuffix(l.Name, "not placed"); !mixed && hits != (l.Gateway.HitShare > 0) || l.Etcd.HitShare != 0 {
			t.Errorf("%s: the chain answered %v of the gateway's reads, and %v of etcd's", l.Name, l.Gateway.HitShare, l.Etcd.HitShare)
		}
	}
	if etcd == 0 || clients == 0 {
		t.Errorf("all loads took %v µs of CPU time of etcd, and %v of the clients", etcd, clients)
	}
	if info, err := os.Stat(profile); err != nil || info.Size() == 0 {
		t.Errorf("the profile: %v, %v", info, err)
	}
}

func TestBenchGatewayRefusesWrongOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--seconds", "0"},
		{"--seconds", "NaN"},
		{"--rounds", "0"},
		{"--clients", "0"},
		{"--conns", "2"},
		{"--hot-keys", "0"},
		{"--zipf-keys", "-1"},
		{"--value-bytes", "1353"},
		{"--members", "0"},
	} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "gateway"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
	needEtcd(t)
	for _, args := range [][]string{{"--plane", "p4"}, {"--plane", "soft", "--nodes", "0"}} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "gateway"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}
