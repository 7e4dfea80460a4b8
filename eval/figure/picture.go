package figure

import (
	"slices"

	"github.com/netcraq/netcraq/eval/plot"
)

// manyPlaces is the number of places from which on an axis gets round numbers instead of a label for each.
const manyPlaces = 9

// Chart is the picture of an outcome.
func (o *Outcome) Chart() *plot.Chart {
	c := &plot.Chart{Rows: o.Spec.Rows}
	for _, s := range o.Spec.Series {
		c.Series = append(c.Series, plot.Style{Name: s.Name, Role: s.Role, Variant: s.Variant})
	}
	for i := range o.Spec.Panels {
		panel := &o.Spec.Panels[i]
		switch {
		case panel.Curve:
			c.Diagrams = append(c.Diagrams, o.curves(panel))
		case panel.Stack:
			c.Diagrams = append(c.Diagrams, o.stacks(panel, c))
		default:
			c.Diagrams = append(c.Diagrams, o.diagram(panel))
		}
	}
	if o.Spec.Extra != nil && !o.Empty() {
		o.addExtras(c)
	}
	return c
}

// shows reports whether a panel shows a series.
func (p *Panel) shows(series string) bool {
	return len(p.Only) == 0 || slices.Contains(p.Only, series)
}

// diagram shows medians over the axis, with their spread.
func (o *Outcome) diagram(panel *Panel) plot.Diagram {
	d := plot.Diagram{
		Title: panel.Title,
		X:     plot.Axis{Label: o.Spec.X.Label, Log: o.Spec.X.Log},
		Y:     plot.Axis{Label: panel.Label, Log: panel.Log},
	}
	if panel.Bars {
		d.Kind, d.Categories, d.X.Log = plot.Bars, o.Spec.X.Names, false
	} else if len(o.Xs) < manyPlaces {
		d.At = o.Xs
	}
	for i, s := range o.Spec.Series {
		if !panel.shows(s.Name) {
			continue
		}
		var points []plot.Range
		for _, x := range o.Xs {
			if v, ok := o.shown(s.Name, x, panel.Metric); ok {
				points = append(points, plot.Range{X: x, Mid: v.Median, Low: v.Low, High: v.High})
			}
		}
		if len(points) > 0 {
			d.Data = append(d.Data, plot.Data{Series: i, Points: points})
		}
	}
	return d
}

// stacks shows parts of a whole: each metric of Only is a part, with a style of its own.
func (o *Outcome) stacks(panel *Panel, c *plot.Chart) plot.Diagram {
	d := plot.Diagram{
		Title:      panel.Title,
		Kind:       plot.Stacks,
		X:          plot.Axis{Label: o.Spec.X.Label},
		Y:          plot.Axis{Label: panel.Label},
		Categories: o.Spec.X.Names,
	}
	for i, metric := range panel.Only {
		style := plot.Style{Name: metric, Role: plot.Peer, Variant: i + 1} // the first is the whole's
		at := slices.IndexFunc(c.Series, func(s plot.Style) bool { return s.Name == metric })
		if at < 0 {
			c.Series, at = append(c.Series, style), len(c.Series)
		}
		var points []plot.Range
		for _, s := range o.Spec.Series {
			for _, x := range o.Xs {
				if m := o.Median(s.Name, x, metric); m != nil {
					points = append(points, plot.Range{X: x, Mid: *m})
				}
			}
		}
		d.Data = append(d.Data, plot.Data{Series: at, Points: points})
	}
	return d
}

// curves shows the first measurement of each series, over the time within it.
func (o *Outcome) curves(panel *Panel) plot.Diagram {
	d := plot.Diagram{
		Title: panel.Title,
		X:     plot.Axis{Label: panel.Across},
		Y:     plot.Axis{Label: panel.Label, Log: panel.Log},
	}
	for i, s := range o.Spec.Series {
		if !panel.shows(s.Name) {
			continue
		}
		for _, x := range o.Xs {
			if len(panel.At) > 0 && !slices.Contains(panel.At, x) {
				continue
			}
			for _, m := range o.Samples(s.Name, x) {
				if curve, ok := m.Curves[panel.Metric]; ok && m.Round == 0 {
					d.Data = append(d.Data, plot.Data{Series: i, Points: ranges(curve), Smooth: true})
					if d.Spans == nil {
						d.Spans = m.Spans
					}
				}
			}
		}
	}
	return d
}

func ranges(points []plot.Point) []plot.Range {
	all := make([]plot.Range, len(points))
	for i, p := range points {
		all[i] = plot.Range{X: p.X, Mid: p.Y}
	}
	return all
}

// addExtras draws values that were not measured.
func (o *Outcome) addExtras(c *plot.Chart) {
	for _, extra := range o.Spec.Extra(o) {
		for i := range o.Spec.Panels {
			if o.Spec.Panels[i].Metric == extra.Panel {
				c.Series = append(c.Series, extra.Style)
				c.Diagrams[i].Data = append(c.Diagrams[i].Data,
					plot.Data{Series: len(c.Series) - 1, Points: ranges(extra.Points), Smooth: true})
			}
		}
	}
}
