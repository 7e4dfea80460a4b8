package figure

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/plot"
	"github.com/netcraq/netcraq/eval/statistics"
)

// Outcome is the result of a run, read from its journal.
type Outcome struct {
	Spec    *Spec
	Header  Header
	End     *End // nil: interrupted
	samples map[Cell][]Measured
	Unable  []Failure
	Failed  []Failure
	Xs      []float64 // places at which something was measured, in order
}

// Spread summarizes a metric over the rounds of a cell.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`  // a quarter of the rounds were lower; with fewer than four, the lowest
	High   float64 `json:"high"` // a quarter were higher; with fewer than four, the highest
	Rounds int     `json:"rounds"`
}

// Load reads the outcome of a figure. Without a journal the error is fs.ErrNotExist.
func Load(dir string, spec *Spec) (*Outcome, error) {
	j, err := Read(dir, spec.Name)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Spec: spec, Header: j.Header, End: j.Ended(), samples: make(map[Cell][]Measured)}
	for _, e := range j.Entries {
		switch {
		case e.Sample != nil:
			o.samples[e.Sample.Cell] = append(o.samples[e.Sample.Cell], *e.Sample)
			if !slices.Contains(o.Xs, e.Sample.X) {
				o.Xs = append(o.Xs, e.Sample.X)
			}
		case e.Unable != nil:
			o.Unable = append(o.Unable, *e.Unable)
		case e.Failure != nil:
			o.Failed = append(o.Failed, *e.Failure)
		}
	}
	slices.Sort(o.Xs)
	o.Unable = slices.DeleteFunc(o.Unable, func(f Failure) bool { return f.Series != "" && o.measured(f.Series) })
	return o, nil
}

// measured reports whether a series has any sample.
func (o *Outcome) measured(series string) bool {
	return slices.ContainsFunc(o.Xs, func(x float64) bool { return len(o.samples[Cell{series, x}]) > 0 })
}

// Empty reports whether nothing was measured.
func (o *Outcome) Empty() bool { return len(o.samples) == 0 }

// Rounds is the number of rounds of which every measurement that was possible is there.
func (o *Outcome) Rounds() int {
	least := math.MaxInt
	for _, all := range o.samples {
		least = min(least, len(all))
	}
	if least == math.MaxInt {
		return 0
	}
	return least
}

// Samples are the measurements of a cell, in order of their rounds.
func (o *Outcome) Samples(series string, x float64) []Measured { return o.samples[Cell{series, x}] }

// Texts are those of all cells, in the order of the legend; of a cell, those of the first round that has any.
func (o *Outcome) Texts() []Text {
	var all []Text
	for _, s := range o.Spec.Series {
		for _, x := range o.Xs {
			for _, m := range o.Samples(s.Name, x) {
				if len(m.Texts) > 0 {
					all = append(all, m.Texts...)
					break
				}
			}
		}
	}
	return all
}

// Spread summarises the rounds of a cell; false if none has the metric.
func (o *Outcome) Spread(series string, x float64, metric string) (Spread, bool) {
	var values []float64
	for _, m := range o.samples[Cell{series, x}] {
		if v, ok := m.Values[metric]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Spread{}, false
	}
	return spreadOf(values), true
}

// shown is the spread that pictures and tables show; false, too, where the metric's panel omits it.
func (o *Outcome) shown(series string, x float64, metric string) (Spread, bool) {
	if p := o.Spec.panel(metric); p != nil && p.Omit != nil && p.Omit(o, series, x) {
		return Spread{}, false
	}
	return o.Spread(series, x, metric)
}

func spreadOf(values []float64) Spread {
	slices.Sort(values)
	n := len(values)
	s := Spread{Median: statistics.Median(values), Low: values[0], High: values[n-1], Rounds: n}
	if n >= 4 {
		s.Low, s.High = statistics.Quantile(0.25, values), statistics.Quantile(0.75, values)
	}
	return s
}

// Median is that of a metric at a cell, or nil.
func (o *Outcome) Median(series string, x float64, metric string) *float64 {
	s, ok := o.Spread(series, x, metric)
	if !ok {
		return nil
	}
	return &s.Median
}

// Medians are those of a metric at all places where the series was measured.
func (o *Outcome) Medians(series, metric string) []plot.Point {
	var points []plot.Point
	for _, x := range o.Xs {
		if m := o.Median(series, x, metric); m != nil {
			points = append(points, plot.Point{X: x, Y: *m})
		}
	}
	return points
}

// Ratio is that of two medians, as a pair of numbers that may be missing.
func Ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	r := *a / *b
	return &r
}

// Value is a number that is there.
func Value(v float64) *float64 { return &v }

// Ratios are those of two series' medians of a metric at every place where both were measured.
func (o *Outcome) Ratios(series, to, metric string) []plot.Point {
	var points []plot.Point
	for _, x := range o.Xs {
		if r := Ratio(o.Median(series, x, metric), o.Median(to, x, metric)); r != nil {
			points = append(points, plot.Point{X: x, Y: *r})
		}
	}
	return points
}

// Least is the point with the least value, or nil of none.
func Least(points []plot.Point) *plot.Point {
	if len(points) == 0 {
		return nil
	}
	least := slices.MinFunc(points, func(a, b plot.Point) int { return cmp.Compare(a.Y, b.Y) })
	return &least
}

// Most is the point with the greatest value, or nil of none.
func Most(points []plot.Point) *plot.Point {
	if len(points) == 0 {
		return nil
	}
	most := slices.MaxFunc(points, func(a, b plot.Point) int { return cmp.Compare(a.Y, b.Y) })
	return &most
}

// At is when the last measurement was made.
func (o *Outcome) At() time.Time {
	if o.End != nil {
		return o.End.At
	}
	last := o.Header.Began
	for _, all := range o.samples {
		for _, m := range all {
			if m.At.After(last) {
				last = m.At
			}
		}
	}
	return last
}
