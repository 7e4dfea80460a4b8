package plot

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Of the legend: the length of a sample, and the space between two entries.
const (
	sampleWidth = 24 * vg.Length(1)
	sampleGap   = 4 * vg.Length(1)
	entryGap    = 14 * vg.Length(1)
)

// draw puts the legend above everything, so that it covers no data, and the diagrams below it, row by row.
func (c *Chart) draw(canvas draw.Canvas) error {
	canvas.SetColor(color.White)
	canvas.Fill(canvas.Rectangle.Path())
	lines := c.legendLines(canvas.Max.X - canvas.Min.X)
	top := canvas.Max.Y - vg.Points(4)
	for _, entries := range lines {
		c.drawLegend(canvas, entries, top)
		top -= vg.Points(legendHeight)
	}
	below := draw.Crop(canvas, 0, 0, 0, top-canvas.Max.Y)
	rows, columns := c.grid()
	tiles := draw.Tiles{
		Rows:      rows,
		Cols:      columns,
		PadX:      5 * vg.Millimeter,
		PadY:      4 * vg.Millimeter,
		PadTop:    vg.Millimeter,
		PadBottom: vg.Millimeter,
		PadLeft:   vg.Millimeter,
		PadRight:  4 * vg.Millimeter,
	}
	for i := range c.Diagrams {
		p, err := c.Diagrams[i].plot(c.Series)
		if err != nil {
			return err
		}
		p.Draw(tiles.At(below, i%columns, i/columns))
	}
	return nil
}

// legendLines divides the series that have data, by number, into lines of at most the width.
func (c *Chart) legendLines(width vg.Length) [][]int {
	style := plainText()
	var lines [][]int
	used := width
	for i, s := range c.Series {
		if !c.shows(i) {
			continue
		}
		entry := sampleWidth + sampleGap + style.Width(s.Name) + entryGap
		if used+entry > width-entryGap {
			lines, used = append(lines, nil), 0
		}
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
		used += entry
	}
	return lines
}

// shows reports whether any diagram has data of a series.
func (c *Chart) shows(series int) bool {
	for _, d := range c.Diagrams {
		for _, data := range d.Data {
			if data.Series == series && len(data.Points) > 0 {
				return true
			}
		}
	}
	return false
}

// bars reports whether the legend shows boxes instead of strokes.
func (c *Chart) bars() bool { return len(c.Diagrams) > 0 && c.Diagrams[0].Kind != Lines }

// smooth reports whether a series has no markers anywhere.
func (c *Chart) smooth(series int) bool {
	for _, d := range c.Diagrams {
		for _, data := range d.Data {
			if data.Series == series && !data.Smooth {
				return false
			}
		}
	}
	return true
}

func (c *Chart) drawLegend(canvas draw.Canvas, entries []int, top vg.Length) {
	style := plainText()
	style.YAlign = draw.YCenter
	x, middle := canvas.Min.X+entryGap, top-vg.Points(legendHeight/2)
	for _, i := range entries {
		l := c.Series[i].look()
		if c.bars() {
			drawBox(
				&canvas,
				l,
				vg.Rectangle{
					Min: vg.Point{X: x, Y: middle - vg.Points(4)},
					Max: vg.Point{X: x + sampleWidth, Y: middle + vg.Points(4)},
				},
			)
		} else {
			canvas.StrokeLine2(l.stroke(), x, middle, x+sampleWidth, middle)
			if !c.smooth(i) {
				canvas.DrawGlyph(l.marker(), vg.Point{X: x + sampleWidth/2, Y: middle})
			}
		}
		x += sampleWidth + sampleGap
		canvas.FillText(style, vg.Point{X: x, Y: middle}, c.Series[i].Name)
		x += style.Width(c.Series[i].Name) + entryGap
	}
}

// plainText is the style of all text but titles.
func plainText() text.Style {
	style := plot.New().Legend.TextStyle
	style.Font.Variant, style.Font.Size = "Sans", vg.Points(10)
	return style
}

// plot makes one diagram.
func (d *Diagram) plot(styles []Style) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.Title, d.X.Label, d.Y.Label
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label} {
		style.Font.Variant, style.Font.Size = "Sans", vg.Points(10)
	}
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(11), vg.Points(4)
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, spanColour
	p.Add(grid)
	d = d.scaled()
	d.scaleY(p)
	for i, span := range d.Spans {
		height := p.Y.Max - (p.Y.Max-p.Y.Min)*lineHeight*float64(i)
		if err := span.add(p, p.Y.Min, p.Y.Max, height); err != nil {
			return nil, err
		}
	}
	if d.Kind == Lines {
		for _, data := range d.Data {
			p.Add(lineDrawing{data: data, look: styles[data.Series].look()})
		}
		d.scaleX(p)
	} else {
		p.Add(barDrawing{diagram: d, styles: styles})
		var names plot.ConstantTicks
		for i, name := range d.Categories {
			names = append(names, plot.Tick{Value: float64(i), Label: name})
		}
		p.X.Tick.Marker, p.X.Tick.Length = names, 0
		p.X.Min, p.X.Max = -0.5, float64(max(len(names), 1))-0.5
	}
	return p, nil
}

// scaled is the diagram with logarithms in place of values on logarithmic axes; values that have
// none are left out. The library has logarithmic axes too, but leaves room at their sides as if
// their labels stood elsewhere.
func (d *Diagram) scaled() *Diagram {
	x, y := d.X.scale(), d.Y.scale()
	copied := *d
	copied.Data, copied.Spans = nil, nil
	for _, data := range d.Data {
		points := make([]Range, 0, len(data.Points))
		for _, p := range data.Points {
			if d.X.Log && p.X <= 0 || d.Y.Log && p.Mid <= 0 {
				continue
			}
			low := p.Low
			if d.Y.Log && low <= 0 {
				low = p.Mid
			}
			points = append(points, Range{X: x(p.X), Mid: y(p.Mid), Low: y(low), High: y(max(p.High, p.Mid))})
			if !p.spread() {
				points[len(points)-1].Low, points[len(points)-1].High = 0, 0
			}
		}
		data.Points = points
		copied.Data = append(copied.Data, data)
	}
	for _, s := range d.Spans {
		copied.Spans = append(copied.Spans, Span{s.Name, x(s.From), x(s.To)})
	}
	return &copied
}

func (d *Diagram) scaleY(p *plot.Plot) {
	least, most := d.extent()
	switch {
	case d.Y.Log:
		low, high := logBounds(math.Pow(10, least), math.Pow(10, most))
		p.Y.Min, p.Y.Max = math.Log10(low), math.Log10(high)
	case len(d.Spans) > 0:
		p.Y.Min, p.Y.Max = 0, roundUp(most*headroom)
	default:
		p.Y.Min, p.Y.Max = 0, roundUp(most*1.04)
	}
	p.Y.Tick.Marker = ticker{log: d.Y.Log}
}

// scaleX leaves a margin at both ends of the X axis.
func (d *Diagram) scaleX(p *plot.Plot) {
	const margin = 0.04
	least, most := math.Inf(1), math.Inf(-1)
	smooth := true
	for _, data := range d.Data {
		smooth = smooth && data.Smooth
		for _, point := range data.Points {
			least, most = min(least, point.X), max(most, point.X)
		}
	}
	switch {
	case least > most:
		least, most = 1, 2
	case least == most:
		least, most = least-1, most+1
	case !smooth:
		room := margin * (most - least)
		least, most = least-room, most+room
	}
	p.X.Min, p.X.Max = least, most
	p.X.Tick.Marker = ticker{log: d.X.Log, at: d.At}
}
