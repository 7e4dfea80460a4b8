// Package metricspage compares the sections of docs/metrics.md with the metrics that programs export, and writes them.
package metricspage

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// WriteVariable is the environment variable that has tests write the page.
const WriteVariable = "WRITE_METRICS"

const page = "docs/metrics.md"

// Check checks the metrics of a program: Prometheus' linter has no complaint, every declared metric has a value, and the
// section of docs/metrics.md lists them all and nothing else. Metrics of Go and of the process are not listed.
func Check(t *testing.T, section string, r *prometheus.Registry) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !listed.MatchString(f.GetName()) })
	for _, name := range described(r) {
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
			t.Errorf("%s is declared, and the registry has no value of it", name)
		}
	}
	check(t, section, families)
}

// CheckServed checks a page of metrics that a server beside etcd's own serves. Only names with this prefix are looked at.
func CheckServed(t *testing.T, section, prefix string, served io.Reader) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(served)
	if err != nil {
		t.Fatal(err)
	}
	var families []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if strings.HasPrefix(name, prefix) {
			families = append(families, found[name])
		}
	}
	check(t, section, families)
}

func check(t *testing.T, section string, families []*dto.MetricFamily) {
	t.Helper()
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	compare(t, section, list(families))
}

var (
	listed   = regexp.MustCompile(`^(netcraq|etcd)_`)
	descName = regexp.MustCompile(`fqName: "((?:netcraq|etcd)_[^"]*)"`)
)

// described returns the names that the collectors of a registry declare.
func described(r *prometheus.Registry) []string {
	out := make(chan *prometheus.Desc)
	go func() {
		r.Describe(out)
		close(out)
	}()
	var names []string
	for d := range out {
		if m := descName.FindStringSubmatch(d.String()); m != nil {
			names = append(names, m[1])
		}
	}
	return names
}

// entry begins the entry of a metric in a section.
const entry = "- `"

// list is the section's text. It names the types that a metric's name does not tell.
func list(families []*dto.MetricFamily) string {
	out := new(strings.Builder)
	for _, f := range families {
		labels := make(map[string]bool)
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		name := f.GetName()
		if len(labels) > 0 {
			name += "{" + strings.Join(slices.Sorted(maps.Keys(labels)), ",") + "}"
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			fmt.Fprintf(out, entry+"%s` (histogram): %s\n", name, f.GetHelp())
		} else {
			fmt.Fprintf(out, entry+"%s`: %s\n", name, f.GetHelp())
		}
	}
	return out.String()
}

// compare compares the list of a section with the page, or puts it there.
func compare(t *testing.T, section, want string) {
	t.Helper()
	path := filepath.Join(root(t), page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	body, after := rest, ""
	if i := strings.Index(rest, "\n## "); i >= 0 {
		body, after = rest[:i], rest[i:]
	}
	intro, have, _ := strings.Cut(body, entry)
	if have != "" {
		have = entry + have
	}
	if have == want {
		return
	}
	if os.Getenv(WriteVariable) == "" {
		t.Errorf("%s, section %q, is not current: run `make metrics` and commit the result. It lists\n%s\nand the program exports\n%s",
			page, section, have, want)
		return
	}
	whole := before + "\n## " + section + "\n" + intro + want + after
	if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
		t.Fatal(err)
	}
}

// root returns the directory of the product's module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, page)); err == nil {
			return dir
		}
	}
	t.Fatalf("no directory above has %s", page)
	return ""
}
