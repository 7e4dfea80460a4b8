package metricspage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const rules = "deploy/prometheus/netcraq.rules.yaml"

var metricName = regexp.MustCompile(`\b(?:netcraq|etcd)_[a-z_]+\b`)

// TestAlertsNameMetrics: each alert uses metrics that a program exports, says what to do, and has a test for promtool.
func TestAlertsNameMetrics(t *testing.T) {
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	exported, tests := string(read(page)), string(read("deploy/prometheus/netcraq_test.yaml"))
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Action string }
			}
		}
	}
	if err := yaml.Unmarshal(read(rules), &file); err != nil {
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
				if !strings.Contains(exported, entry+name+"`") && !strings.Contains(exported, entry+name+"{") {
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
