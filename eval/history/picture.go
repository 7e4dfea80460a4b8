package history

import (
	"maps"
	"slices"
	"strings"

	"github.com/netcraq/netcraq/eval/plot"
)

// columns are those of a picture of all figures.
const columns = 4

// Picture draws a diagram for each figure, over the days since the first line.
func Picture(lines []Line) *plot.Chart {
	figures := FiguresOf(lines)
	c := &plot.Chart{
		Rows: (len(figures) + columns - 1) / columns, Series: []plot.Style{{Name: "NetCRAQ", Role: plot.Ours}},
	}
	for _, figure := range figures {
		d := plot.Diagram{Title: figure, X: plot.Axis{Label: days(lines)}, Y: plot.Axis{Label: KindOf(figure).Unit}}
		var points []plot.Range
		for _, l := range lines {
			if v, ok := l.Figures[figure]; ok {
				points = append(points, plot.Range{X: l.Time.Sub(lines[0].Time).Hours() / 24, Mid: v})
			}
		}
		d.Data = []plot.Data{{Points: points}}
		c.Diagrams = append(c.Diagrams, d)
	}
	return c
}

func days(lines []Line) string {
	if len(lines) == 0 {
		return "days"
	}
	return "days since " + lines[0].Time.Format("2006-01-02")
}

// FiguresOf returns the names of all figures of lines, those of a kind together.
func FiguresOf(lines []Line) []string {
	names := make(map[string]bool)
	for _, l := range lines {
		for name := range l.Figures {
			names[name] = true
		}
	}
	return slices.SortedFunc(maps.Keys(names), Compare)
}

// TimedOf returns the names of all timed figures of lines.
func TimedOf(lines []Line) []string {
	names := make(map[string]bool)
	for _, l := range lines {
		for name := range l.Timed {
			names[name] = true
		}
	}
	return slices.SortedFunc(maps.Keys(names), strings.Compare)
}
