package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/platform/roottest"
)

func TestFiguresAreListed(t *testing.T) {
	out, code, err := clitest.Netcraq("bench", "figures", "--list", "--json")
	if code != 0 || err != nil {
		t.Fatal(out, code, err)
	}
	var names []figureName
	if err := json.Unmarshal([]byte(out), &names); err != nil || len(names) == 0 {
		t.Fatal(out, err)
	}
	quick, full := 0.0, 0.0
	seen := make(map[string]bool)
	for _, n := range names {
		if n.Title == "" || n.Source == "" || seen[n.Name] {
			t.Errorf("%+v", n)
		}
		seen[n.Name] = true
		if n.Made != "" {
			continue // not made unless that command was run
		}
		quick, full = quick+n.QuickS, full+n.BudgetS
	}
	if quick > 540 || full > 3400 { // the rest of the hour is for building and installing peers
		t.Errorf("all figures together may take %.0f s, quick %.0f s: more than an hour, or than ten minutes", full, quick)
	}
}

func TestUnknownFigureIsRefused(t *testing.T) {
	out, code, err := clitest.Netcraq("bench", "figure", "nothing")
	if code != cli.ExitUsage || out != "" || !strings.Contains(err.Error(), "--list") {
		t.Errorf("%q, %d, %v", out, code, err)
	}
}

// TestFigureIsMade makes a short figure, from the measurement to the report.
func TestFigureIsMade(t *testing.T) {
	roottest.Need(t)
	dir := t.TempDir()
	out, code, err := clitest.Netcraq("bench", "figure", "netcraq-distance", "--quick", "--json", "--dir", dir)
	if code != 0 || err != nil {
		t.Fatal(out, code, err)
	}
	var made struct {
		Rows []struct {
			Series, Metric string
			Median         float64
		}
		Files []string
	}
	if err := json.Unmarshal([]byte(out), &made); err != nil || len(made.Rows) == 0 || len(made.Files) != 4 {
		t.Fatal(out, err)
	}
	for _, r := range made.Rows {
		if r.Metric == "reads_per_s" && r.Median <= 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range append(made.Files, filepath.Join(dir, "report.html"), filepath.Join(dir, "summary.json")) {
		if info, err := os.Stat(name); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
