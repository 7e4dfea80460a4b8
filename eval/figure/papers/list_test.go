package papers

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/eval/plot"
)

func TestFiguresAreWhole(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range All(Tools{}) {
		if s.Name == "" || s.Title == "" || s.Source.Paper == "" || s.Source.Reports == "" || seen[s.Name] ||
			s.Open == nil ||
			s.Results == nil ||
			s.Notes == nil {
			t.Errorf("%s: something is missing, or there are two of that name", s.Name)
		}
		seen[s.Name] = true
		styles := make(map[plot.Style]bool)
		for _, series := range s.Series {
			style := plot.Style{Role: series.Role, Variant: series.Variant}
			if styles[style] {
				t.Errorf("%s: two series look like %s", s.Name, series.Name)
			}
			styles[style] = true
		}
		for _, plan := range []figure.Plan{s.Quick, s.Full} {
			if len(plan.Xs) == 0 || plan.Rounds < 1 || plan.Window <= 0 || plan.Budget <= 0 {
				t.Errorf("%s: %+v", s.Name, plan)
			}
		}
		for _, p := range s.Panels {
			if p.Label == "" || p.Unit == "" || p.Metric == "" {
				t.Errorf("%s: a panel without metric, label or unit: %+v", s.Name, p)
			}
		}
	}
}

// The texts of a figure can be computed from any measurements: all, one series, or one place
// alone.
func TestAnyOutcomeIsPublished(t *testing.T) {
	for _, s := range All(Tools{}) {
		subsets := []func(figure.Cell) bool{
			func(figure.Cell) bool { return true },
			func(c figure.Cell) bool { return c.X == s.Full.Xs[len(s.Full.Xs)-1] },
			func(c figure.Cell) bool { return c.X == s.Full.Xs[0] },
		}
		for _, series := range s.Series {
			subsets = append(subsets, func(c figure.Cell) bool { return c.Series == series.Name })
		}
		for i, subset := range subsets {
			dir := t.TempDir()
			invent(t, dir, s, subset)
			o, err := figure.Load(dir, s)
			if err != nil {
				t.Fatal(err)
			}
			made := o.Made(dir)
			if len(made.Notes) == 0 && i == 0 {
				t.Errorf("%s: nothing is said about it", s.Name)
			}
			for _, n := range made.Notes {
				if strings.Contains(n.Text, "%!") || strings.Contains(n.Text, "NaN") ||
					strings.Contains(n.Text, "Inf") {
					t.Errorf("%s: %s", s.Name, n.Text)
				}
			}
			for _, r := range made.Results {
				if r.Metric == "" || strings.Contains(r.Metric, "%!") {
					t.Errorf("%s: %+v", s.Name, r)
				}
			}
		}
		if _, err := figure.Publish(t.TempDir(), []*figure.Spec{s}); err != nil {
			t.Error(err)
		}
	}
}

// besides are metrics that figures look at without drawing them.
var besides = []string{
	"overflows_percent", headP50us, tailP50us, storeAlone, "replaced", writeGap, readGap, writesKept,
	repairPause, repairTime, copyTime, writeP50us, "first_seed",
}

// invent writes a journal with numbers for some cells of a figure.
func invent(t *testing.T, dir string, s *figure.Spec, subset func(figure.Cell) bool) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	metrics := append([]string(nil), besides...)
	for _, p := range s.Panels {
		metrics = append(append(metrics, p.Metric), p.Only...)
	}
	record(t, dir, s, subset, func(figure.Cell) figure.Sample {
		v := make(map[string]float64)
		for _, m := range metrics {
			v[m] = 1 + 1000*random.Float64()
		}
		return values(v)
	})
}

// record writes a journal with given samples of some cells of a figure, in two rounds.
func record(
	t *testing.T,
	dir string,
	s *figure.Spec,
	subset func(figure.Cell) bool,
	measured func(figure.Cell) figure.Sample,
) {
	t.Helper()
	file, err := os.Create(filepath.Join(mkdir(t, dir, "raw"), s.Name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := json.NewEncoder(file)
	write := func(line any) {
		if err := lines.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
	write(figure.Header{Figure: s.Name})
	for round := range 2 {
		for _, x := range s.Full.Xs {
			for _, series := range s.Series {
				cell := figure.Cell{Series: series.Name, X: x}
				if series.Has != nil && !series.Has(x) || !subset(cell) {
					continue
				}
				write(figure.Entry{Sample: &figure.Measured{Cell: cell, Round: round, Sample: measured(cell)}})
			}
		}
	}
	write(figure.Entry{End: &figure.End{}})
}

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Bundles have rows of their own, which compare nothing with the papers: no mark, and a note that says so.
func TestBundlesAreNamed(t *testing.T) {
	figures := map[string]int{
		"netcraq-length": 0, "netcraq-mixed": 0, "netchain-write-share": 0,
		"netchain-value-size": 0, "netcraq-distance": 0,
	}
	for _, s := range All(Tools{}) {
		if _, has := figures[s.Name]; !has {
			continue
		}
		dir := t.TempDir()
		invent(t, dir, s, func(figure.Cell) bool { return true })
		o, err := figure.Load(dir, s)
		if err != nil {
			t.Fatal(err)
		}
		made := o.Made(dir)
		for _, r := range made.Results {
			if !strings.Contains(r.Metric, "(bundles of ") {
				continue
			}
			figures[s.Name]++
			if r.Values[figure.Ours] == nil || r.Mark != nil || r.Values[figure.Paper] != nil {
				t.Errorf("%s: %+v", s.Name, r)
			}
		}
		if !slices.ContainsFunc(made.Notes,
			func(n figure.Note) bool { return strings.Contains(n.Text, "like is compared with like") }) {
			t.Errorf("%s: nothing says that bundles are not in the papers", s.Name)
		}
	}
	for name, rows := range figures {
		if rows == 0 {
			t.Errorf("%s: no rows of bundles", name)
		}
	}
}
