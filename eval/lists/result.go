package lists

import (
	"fmt"
	"strings"

	"github.com/netcraq/netcraq/eval/statistics"
)

// Names of the systems.
const (
	Etcd    = "etcd"
	Member  = "member"
	Gateway = "gateway"
	Memory  = "memory"
)

// Window is what an API server saw of a system within its time.
type Window struct {
	Lists     int     `json:"lists"`
	MeanMs    float64 `json:"mean_ms"` // of the waits for the cache
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	AskedPerS float64 `json:"asked_per_s"` // requests for progress
	ToldPerS  float64 `json:"told_per_s"`  // progress
}

// System is the result of a system: medians over the rounds.
type System struct {
	Name string `json:"name"`
	Window
	Ratio  float64  `json:"ratio"` // of the mean to etcd's, median over the rounds
	Rounds []Window `json:"rounds"`
}

// Result compares the systems.
type Result struct {
	Systems   []System `json:"systems"`
	ListsPerS float64  `json:"lists_per_s"`
	Writes    float64  `json:"writes_per_s"`
	Seed      uint64   `json:"seed"`
	Settings  []string `json:"settings"`
}

func newResult(o *Options) *Result {
	return &Result{ListsPerS: o.Lists, Writes: o.Writes, Seed: o.Seed, Settings: []string{"chain: " + o.Chain}}
}

func (r *Result) summarise() {
	for i := range r.Systems {
		s := &r.Systems[i]
		median := func(of func(w, etcd *Window) float64) float64 {
			values := make([]float64, len(s.Rounds))
			for j := range s.Rounds {
				values[j] = of(&s.Rounds[j], &r.Systems[0].Rounds[j])
			}
			return statistics.Median(values)
		}
		s.P50ms = median(func(w, _ *Window) float64 { return w.P50ms })
		s.P99ms = median(func(w, _ *Window) float64 { return w.P99ms })
		s.AskedPerS = median(func(w, _ *Window) float64 { return w.AskedPerS })
		s.ToldPerS = median(func(w, _ *Window) float64 { return w.ToldPerS })
		s.MeanMs = median(func(w, _ *Window) float64 { return w.MeanMs })
		s.Ratio = median(func(w, etcd *Window) float64 { return w.MeanMs / etcd.MeanMs })
		for _, w := range s.Rounds {
			s.Lists += w.Lists
		}
	}
}

// Table returns a row for each system.
func (r *Result) Table() ([]string, [][]string) {
	header := []string{"store", "mean wait ms", "ratio", "p50 ms", "p99 ms", "requests/s", "progress/s", "lists"}
	var rows [][]string
	for i := range r.Systems {
		s := &r.Systems[i]
		rows = append(rows, []string{
			s.Name, fmt.Sprintf("%.2f", s.MeanMs), fmt.Sprintf("%.3f", s.Ratio), fmt.Sprintf("%.2f", s.P50ms), fmt.Sprintf("%.1f", s.P99ms),
			fmt.Sprintf("%.1f", s.AskedPerS), fmt.Sprintf("%.1f", s.ToldPerS), fmt.Sprint(s.Lists),
		})
	}
	return header, rows
}

// Summary describes the settings.
func (r *Result) Summary() string {
	return fmt.Sprintf("How long lists waited until a watch cache had the store's revision: %v lists and %v writes of other objects "+
		"a second.\nMedians of %d rounds, and of their ratios to etcd's; seed %d. %s.",
		r.ListsPerS, r.Writes, len(r.Systems[0].Rounds), r.Seed, strings.Join(r.Settings, "; "))
}
