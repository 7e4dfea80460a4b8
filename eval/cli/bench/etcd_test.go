package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// needEtcd skips a test if there is no etcd server.
func needEtcd(t *testing.T) {
	t.Helper()
	if _, err := etcd.Find(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestBenchEtcdRefusesWrongOptions(t *testing.T) {
	needEtcd(t)
	for _, args := range [][]string{
		{"members", "--seconds", "0"},
		{"members", "--sizes", "0"},
		{"members", "--clients", "-1", "--sizes", "1", "--unlimited"},
		{"members", "--share", "-1"},
		{"pipeline", "--key-bytes", "1"},
		{"batching", "--sizes", "1000"},
		{"batching", "--members", "-1"},
	} {
		if out, code, err := clitest.Netcraq(append([]string{"bench", "etcd"}, args...)...); code != cli.ExitUsage ||
			out != "" {
			t.Errorf("%v: exit status %d, %v, %q", args, code, err, out)
		}
	}
}

func TestBenchEtcdSaysHowToGetAServer(t *testing.T) {
	t.Setenv(etcd.BinaryVariable, "")
	t.Setenv("PATH", "")
	t.Chdir(t.TempDir())
	out, code, err := clitest.Netcraq("bench", "etcd", "members")
	if code != cli.ExitError || out != "" || !strings.Contains(fmt.Sprint(err), "scripts/peers.sh etcd") {
		t.Errorf("exit status %d, %v, %q", code, err, out)
	}
}

func TestBenchEtcdMembersFitsALaw(t *testing.T) {
	needEtcd(t)
	roottest.Need(t)
	out, code, err := clitest.Netcraq("bench", "etcd", "members", "--sizes", "1,2,3", "--clients", "20",
		"--conns", "6", "--seconds", "0.3", "--share", "0.3", "--json")
	var report struct {
		Cells []struct {
			Members   int     `json:"members"`
			PerSecond float64 `json:"per_second"`
		} `json:"cells"`
		Laws []struct {
			Fitted struct {
				Lambda float64 `json:"lambda"`
			} `json:"fitted"`
		} `json:"laws"`
		Settings []string `json:"settings"`
	}
	if code != 0 || json.Unmarshal([]byte(out), &report) != nil || len(report.Cells) != 6 || len(report.Laws) != 2 {
		t.Fatalf("exit status %d, %v, %q", code, err, out)
	}
	for _, law := range report.Laws {
		if law.Fitted.Lambda <= 0 {
			t.Errorf("%+v", law)
		}
	}
	if text := strings.Join(report.Settings, "; "); !strings.Contains(text, "30 % of a CPU") {
		t.Errorf("settings %q", text)
	}
}
