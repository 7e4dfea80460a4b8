package figure

import (
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// writeCSV writes one line for each value of every measurement, and one for each point of a curve.
// Fits to all of them follow, with the bounds of their confidence intervals.
func (o *Outcome) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(
		[]string{
			"figure", "mode", "series", "role", "x", "place", "round", "metric", "unit", "t", "value", "at",
			"low", "high",
		},
	) // kept for Error
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, x := range o.Xs {
		for _, s := range o.Spec.Series {
			for _, m := range o.Samples(s.Name, x) {
				row := func(metric, t string, value float64) {
					_ = out.Write(
						[]string{
							o.Spec.Name, mode(o.Header.Quick), s.Name, string(s.Role), number(x),
							o.Spec.X.Place(x), strconv.Itoa(m.Round), metric, o.Spec.unit(metric), t,
							number(value), m.At.Format(time.RFC3339), "", "",
						},
					)
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
	for _, r := range o.results() {
		for _, row := range r.Rows() {
			if row.Interval == nil || row.Value == nil {
				continue
			}
			high := ""
			if row.Interval.High != nil {
				high = number(*row.Interval.High)
			}
			_ = out.Write(
				[]string{
					o.Spec.Name, mode(o.Header.Quick), "", "", "", "", "", r.Metric, r.Unit, "", number(*row.Value),
					o.At().Format(time.RFC3339), number(row.Interval.Low), high,
				},
			)
		}
	}
	out.Flush()
	return out.Error()
}

// panel returns the panel that shows a metric, or nil.
func (s *Spec) panel(metric string) *Panel {
	for i := range s.Panels {
		if p := &s.Panels[i]; p.Metric == metric || p.Stack && slices.Contains(p.Only, metric) {
			return p
		}
	}
	return nil
}

// draws reports whether a metric is one of those that matter most: drawn, or, where only curves are
// drawn, any.
func (s *Spec) draws(metric string) bool {
	onlyCurves := !slices.ContainsFunc(s.Panels, func(p Panel) bool { return !p.Curve })
	return onlyCurves || s.panel(metric) != nil
}

// unit is that of a metric; a metric that no panel shows may name its own at its end.
func (s *Spec) unit(metric string) string {
	if p := s.panel(metric); p != nil {
		return p.Unit
	}
	for suffix, unit := range map[string]string{"_per_s": "1/s", "_us": "µs", "_ms": "ms", "_s": "s", "_percent": "%"} {
		if strings.HasSuffix(metric, suffix) && (suffix != "_s" || !strings.HasSuffix(metric, "_per_s")) {
			return unit
		}
	}
	return ""
}
