package figure

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/plot"
)

// Values that a panel omits are neither drawn nor in tables; the numbers of all rounds keep them.
func TestOmittedIsNotShown(t *testing.T) {
	dir, spec := t.TempDir(), hashSpec(new(hashing))
	spec.Panels[0].Omit = func(_ *Outcome, series string, x float64) bool { return series == "first" && x == 256 }
	if _, err := Run(t.Context(), spec, Options{Dir: dir, Quick: true}); err != nil {
		t.Fatal(err)
	}
	outcomes, err := Publish(dir, []*Spec{spec})
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range outcomes[0].Chart().Diagrams[0].Data {
		shown := slices.ContainsFunc(data.Points, func(p plot.Range) bool { return p.X == 256 })
		if shown != (spec.Series[data.Series].Name == "second") {
			t.Errorf("%s at 256 is drawn: %v", spec.Series[data.Series].Name, shown)
		}
	}
	for _, r := range outcomes[0].Made(dir).Rows {
		if r.Series == "first" && r.X == 256 && r.Metric == "hashes_per_s" {
			t.Errorf("in the table: %+v", r)
		}
	}
	if numbers := read(t, filepath.Join(dir, "hashing.csv")); strings.Count(numbers, "first,ours,256,256,") != 3*(2+2) {
		t.Errorf("numbers:\n%s", numbers)
	}
}
