package metricspage

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rules     = "deploy/prometheus/netcraq.rules.yaml"
	dashboard = "deploy/chart/dashboard.json"
)

var metricName = regexp.MustCompile(`\b(?:netcraq|etcd)_[a-z_]+\b`)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// exports reports whether the page lists a metric.
func exports(page, name string) bool {
	return strings.Contains(page, entry+name+"`") || strings.Contains(page, entry+name+"{")
}

// TestAlertsNameMetrics: each alert uses metrics that a program exports, says what to do, and has a test for promtool.
func TestAlertsNameMetrics(t *testing.T) {
	exported, tests := string(read(t, page)), string(read(t, "deploy/prometheus/netcraq_test.yaml"))
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Action string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, rules), &file); err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			alerts++
			names := metricName.FindAllString(r.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: no metric in %q", r.Alert, r.Expr)
			}
			for _, name := range names {
				if !exports(exported, name) {
					t.Errorf("%s: no program exports %s", r.Alert, name)
				}
			}
			if r.Annotations.Summary == "" || r.Annotations.Action == "" {
				t.Errorf("%s: an alert says what is wrong, and what to do", r.Alert)
			}
			if !strings.Contains(tests, `"`+r.Alert+`"`) {
				t.Errorf("%s: netcraq_test.yaml does not test it", r.Alert)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("%d alerts only", alerts)
	}
}

// series is the end of a name with which a histogram's values are stored.
var series = regexp.MustCompile(`_(bucket|sum|count)$`)

// promtoolVariable is the environment variable with the path of Prometheus' checker, which then checks the panels' queries.
const promtoolVariable = "NETCRAQ_PROMTOOL"

// parse has Prometheus parse queries, as those of rules.
func parse(t *testing.T, promtool string, queries []string) {
	t.Helper()
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for i, q := range queries {
		rules = append(rules, rule{fmt.Sprint("query:", i), q})
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v: %s", err, out)
	}
}

// TestDashboardNamesMetrics: each panel shows metrics that a program exports, each program has panels, and none hides another.
func TestDashboardNamesMetrics(t *testing.T) {
	var file struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, dashboard), &file); err != nil {
		t.Fatal(err)
	}
	exported := string(read(t, page))
	var queries []string
	programs, ids, taken := make(map[string]int), make(map[int]bool), make(map[[2]int]string)
	for _, p := range file.Panels {
		if ids[p.ID] {
			t.Errorf("%s: another panel has the id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
			names := metricName.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: no metric in %q", p.Title, target.Expr)
			}
			for _, name := range names {
				name = series.ReplaceAllString(name, "")
				// etcd's own names, which docs/metrics.md does not list one by one
				if !exports(exported, name) && !strings.Contains(exported, "`"+name+"`") {
					t.Errorf("%s: no program exports %s", p.Title, name)
				}
				programs[strings.Join(strings.Split(name, "_")[:2], "_")]++
			}
		}
	}
	for _, program := range []string{"netcraq_controller", "netcraq_node", "netcraq_gateway", "netcraq_keyspace", "netcraq_member"} {
		if programs[program] == 0 {
			t.Errorf("no panel shows %s", program)
		}
	}
	if promtool := os.Getenv(promtoolVariable); promtool != "" {
		parse(t, promtool, queries)
	}
}
