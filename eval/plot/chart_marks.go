package plot

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// capWidth is that of the ends of a bar of error.
const capWidth = 4 * vg.Length(1)

// lineDrawing draws data as a line with markers and bars of error.
type lineDrawing struct {
	data Data
	look look
}

// Plot implements the library's interface.
func (l lineDrawing) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var path []vg.Point
	for _, point := range l.data.Points {
		path = append(path, vg.Point{X: x(point.X), Y: y(point.Mid)})
	}
	c.StrokeLines(l.look.stroke(), c.ClipLinesXY(path)...)
	if l.data.Smooth {
		return
	}
	for _, point := range l.data.Points {
		errorBar(&c, l.look.colour, x(point.X), y(max(point.Low, p.Y.Min)), y(point.High), point)
		c.DrawGlyph(l.look.marker(), vg.Point{X: x(point.X), Y: y(point.Mid)})
	}
}

func errorBar(c *draw.Canvas, colour color.Color, x, low, high vg.Length, point Range) {
	if !point.spread() {
		return
	}
	style := draw.LineStyle{Color: colour, Width: vg.Points(0.8)}
	c.StrokeLine2(style, x, low, x, high)
	for _, end := range []vg.Length{low, high} {
		c.StrokeLine2(style, x-capWidth/2, end, x+capWidth/2, end)
	}
}

// barDrawing draws the data of a diagram with categories.
type barDrawing struct {
	diagram *Diagram
	styles  []Style
}

// groupWidth is that of the bars of one category, as a part of the distance between two.
const groupWidth = 0.8

// Plot implements the library's interface.
func (b barDrawing) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	heights := make(map[float64]float64)
	width := groupWidth / float64(max(len(b.diagram.Data), 1))
	for i, data := range b.diagram.Data {
		l := b.styles[data.Series].look()
		for _, point := range data.Points {
			left, right, base := point.X-groupWidth/2+width*float64(i), 0.0, p.Y.Min
			right = left + width*0.92
			if b.diagram.Kind == Stacks {
				left, right, base = point.X-groupWidth/3, point.X+groupWidth/3, heights[point.X]
			}
			top := max(point.Mid, p.Y.Min)
			if b.diagram.Kind == Stacks {
				top = base + point.Mid
				heights[point.X] = top
			}
			drawBox(&c, l, vg.Rectangle{Min: vg.Point{X: x(left), Y: y(base)}, Max: vg.Point{X: x(right), Y: y(top)}})
			if b.diagram.Kind == Bars {
				errorBar(&c, color.Black, x((left+right)/2), y(max(point.Low, p.Y.Min)),
					y(max(point.High, p.Y.Min)), point)
			}
		}
	}
}

// drawBox draws a bar with its pattern.
func drawBox(c *draw.Canvas, l look, r vg.Rectangle) {
	if r.Max.Y <= r.Min.Y {
		return
	}
	c.SetColor(l.colour)
	c.Fill(r.Path())
	style := draw.LineStyle{Color: color.White, Width: vg.Points(0.8)}
	if l.hatch == rising || l.hatch == crossed {
		slanted(c, style, r, false)
	}
	if l.hatch == falling || l.hatch == crossed {
		slanted(c, style, r, true)
	}
	const distance = 4 * vg.Length(1)
	if l.hatch == level {
		for y := r.Min.Y + distance; y < r.Max.Y; y += distance {
			c.StrokeLine2(style, r.Min.X, y, r.Max.X, y)
		}
	}
	if l.hatch == upright {
		for x := r.Min.X + distance; x < r.Max.X; x += distance {
			c.StrokeLine2(style, x, r.Min.Y, x, r.Max.Y)
		}
	}
	outline := r.Path()
	c.SetLineStyle(draw.LineStyle{Color: l.colour, Width: vg.Points(0.8)})
	c.Stroke(outline)
}

// slanted fills a rectangle with parallel lines of 45 degrees, cut where it ends.
func slanted(c *draw.Canvas, style draw.LineStyle, r vg.Rectangle, falling bool) {
	const distance = 6 * vg.Length(1)
	width, height := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	for offset := distance; offset < width+height; offset += distance {
		// The line x - y = offset - height, in the rectangle's own coordinates.
		fromX, fromY := max(offset-height, 0), max(height-offset, 0)
		length := min(width-fromX, height-fromY)
		if length <= 0 {
			continue
		}
		a, b := vg.Point{
			X: r.Min.X + fromX,
			Y: r.Min.Y + fromY,
		}, vg.Point{
			X: r.Min.X + fromX + length,
			Y: r.Min.Y + fromY + length,
		}
		if falling {
			a.Y, b.Y = r.Max.Y-fromY, r.Max.Y-fromY-length
		}
		c.StrokeLine2(style, a.X, a.Y, b.X, b.Y)
	}
}
