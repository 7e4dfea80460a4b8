package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchMember runs the comparison briefly on real members and nodes on sockets. Rates depend on the machine, so it expects
// answers only, and that the members read through the chain.
func TestBenchMember(t *testing.T) {
	needEtcd(t)
	out, code, err := clitest.Netcraq("bench", "member", "--plane", "soft", "--clients", "8", "--conns", "3", "--keys", "200",
		"--seconds", "0.2", "--rounds", "2", "--json")
	report := make(map[string]json.RawMessage)
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for _, name := range []string{
		"put_ratio", "put_p50_ratio", "txn_ratio", "range_ratio", "range_p50_ratio", "list_ratio", "mixed_ratio",
		"leader_range_ratio", "follower_range_ratio", "busy_leader_range_ratio",
	} {
		var value float64
		if err := json.Unmarshal(report[name], &value); err != nil || value <= 0 || value > 1000 {
			t.Errorf("%s is %s: %v", name, report[name], err)
		}
	}
	type window struct {
		PerSecond float64                            `json:"per_second"`
		P50ms     float64                            `json:"p50_ms"`
		P99ms     float64                            `json:"p99_ms"`
		FastShare float64                            `json:"fast_share"`
		CPU       struct{ Servers, Clients float64 } `json:"cpu_us"`
	}
	var loads []struct {
		Name         string
		Member, Etcd window
		Rounds       []json.RawMessage
	}
	if err := json.Unmarshal(report["loads"], &loads); err != nil || len(loads) != 10 {
		t.Fatalf("loads are %s: %v", report["loads"], err)
	}
	var servers, clients float64 // over all loads: a request may take less than the kernel's unit of CPU time
	for _, l := range loads {
		for side, w := range map[string]window{"member": l.Member, "etcd": l.Etcd} {
			if w.PerSecond <= 0 || w.P50ms <= 0 || w.P99ms < w.P50ms || len(l.Rounds) != 2 {
				t.Errorf("%s, %s: %+v in %d rounds", l.Name, side, w, len(l.Rounds))
			}
			servers, clients = servers+w.CPU.Servers, clients+w.CPU.Clients
		}
		if reads := l.Name != "put" && l.Name != "txn"; reads != (l.Member.FastShare > 0) || l.Etcd.FastShare != 0 {
			t.Errorf("%s: %v of the members' reads were fast, and %v of etcd's", l.Name, l.Member.FastShare, l.Etcd.FastShare)
		}
	}
	if servers == 0 || clients == 0 {
		t.Errorf("all loads took %v µs of CPU time of the servers, and %v of the clients", servers, clients)
	}
}

func TestBenchMemberRefusesWrongOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--seconds", "0"}, {"--rounds", "0"}, {"--clients", "2"}, {"--conns", "2"}, {"--keys", "150"}, {"--keys", "0"},
		{"--value-bytes", "1353"}, {"--members", "0"}, {"--baseline", "raft"},
	} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "member"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}
