package bench

import (
	"encoding/json"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestBenchLists lists briefly with all stores. Waits depend on the machine, so it expects progress only: etcd answers
// each request once, and our stores more often.
func TestBenchLists(t *testing.T) {
	needEtcd(t)
	out, code, err := clitest.Netcraq("bench", "lists", "--plane", "soft", "--members", "1", "--seconds", "2", "--rounds", "1", "--json")
	var r struct {
		Systems []struct {
			Name      string
			Lists     int
			MeanMs    float64 `json:"mean_ms"`
			P50ms     float64 `json:"p50_ms"`
			P99ms     float64 `json:"p99_ms"`
			AskedPerS float64 `json:"asked_per_s"`
			ToldPerS  float64 `json:"told_per_s"`
		}
	}
	if code != 0 || json.Unmarshal([]byte(out), &r) != nil || len(r.Systems) != 4 {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for i, s := range r.Systems {
		if s.Lists == 0 || s.MeanMs <= 0 || s.P50ms < 0 || s.P99ms < s.P50ms || s.AskedPerS <= 0 {
			t.Errorf("%+v", s)
		}
		if (i > 0) != (s.ToldPerS > s.AskedPerS+0.5) {
			t.Errorf("%s: progress %v times a second after %v requests", s.Name, s.ToldPerS, s.AskedPerS)
		}
	}
}

func TestBenchListsRefusesWrongOptions(t *testing.T) {
	for _, args := range [][]string{
		{"--seconds", "0"}, {"--rounds", "0"}, {"--members", "0"}, {"--lists", "0"}, {"--writes", "NaN"}, {"--lists", "2000"},
	} {
		out, code, err := clitest.Netcraq(append([]string{"bench", "lists"}, args...)...)
		if code != cli.ExitUsage || out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}
