package figure

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"
)

// writeCSV writes every value of every measurement on a line of its own; of a curve, every point.
func (o *Outcome) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"figure", "mode", "series", "role", "x", "place", "round", "metric", "unit", "t", "value", "at"}) // kept for Error
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, x := range o.Xs {
		for _, s := range o.Spec.Series {
			for _, m := range o.Samples(s.Name, x) {
				row := func(metric, t string, value float64) {
					_ = out.Write([]string{o.Spec.Name, o.mode(), s.Name, string(s.Role), number(x), o.Spec.X.Place(x), strconv.Itoa(m.Round), metric,
						o.Spec.unit(metric), t, number(value), m.At.Format(time.RFC3339)})
				}
				for _, metric := range slices.Sorted(maps.Keys(m.Values)) {
					row(metric, "", m.Values[metric])
				}
				for _, metric := range slices.Sorted(maps.Keys(m.Curves)) {
					for _, point := range m.Curves[metric] {
						row(metric, number(point.X), point.Y)
					}
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// mode names how much was measured.
func (o *Outcome) mode() string {
	if o.Header.Quick {
		return "quick"
	}
	return "full"
}

// unit is that of a metric, or nothing if no panel shows it.
func (s *Spec) unit(metric string) string {
	for _, p := range s.Panels {
		if p.Metric == metric || slices.Contains(p.Only, metric) {
			return p.Unit
		}
	}
	return ""
}
