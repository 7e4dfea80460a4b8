package papers

import (
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/eval/figure"
)

// resultsOf publishes a figure of which some cells were measured.
func resultsOf(t *testing.T, s *figure.Spec, subset func(figure.Cell) bool) []figure.Result {
	t.Helper()
	dir := t.TempDir()
	invent(t, dir, s, subset)
	o, err := figure.Load(dir, s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Made(dir).Results
}

// Lines of the summary were missing, or had other names, where a system was not installed or a place
// not measured.
func TestPeersLinesHaveTheSameNames(t *testing.T) {
	for _, s := range []*figure.Spec{peersOperations(), peersZipf(), peersLoss()} {
		var want []string
		for _, r := range resultsOf(t, s, func(figure.Cell) bool { return true }) {
			if slices.Contains(want, r.Metric) {
				t.Errorf("%s: two lines %q", s.Name, r.Metric)
			}
			want = append(want, r.Metric)
		}
		for _, series := range s.Series {
			var got []string
			for _, r := range resultsOf(t, s, func(c figure.Cell) bool {
				return c.Series == series.Name && c.X == s.Full.Xs[0]
			}) {
				got = append(got, r.Metric)
				mine := r.Values[figure.Ours]
				if series.Name != ours && !strings.Contains(series.Name, "NetCRAQ") && mine != nil {
					t.Errorf("%s: only %s was measured, and %q has %v for ours", s.Name, series.Name, r.Metric, *mine)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: only %s was measured: lines %q, want %q", s.Name, series.Name, got, want)
			}
		}
	}
}

// Ours with one request a packet has no mark against pipelines, and bundles have none against one
// request a packet.
func TestPeersMarksCompareLikeWithLike(t *testing.T) {
	marked := make(map[string]bool)
	for _, r := range resultsOf(t, peersOperations(), func(figure.Cell) bool { return true }) {
		unlike := strings.Contains(r.Metric, "unlike")
		if unlike && r.Mark != nil {
			t.Errorf("%q has a mark", r.Metric)
		}
		for _, way := range []string{"get against Redis, one request", "get against Redis, many requests",
			"get against memcached, one request"} {
			marked[way] = marked[way] || strings.HasPrefix(r.Metric, way) && r.Mark != nil
		}
	}
	for way, has := range marked {
		if !has {
			t.Errorf("%q has no mark", way)
		}
	}
}
