package plot

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Colours of lines, in the order of use, that colour-blind people can tell apart; and of the
// background.
var (
	lineColours = []color.Color{
		color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
		color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff}, color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	}
	spanColour   = color.RGBA{R: 0xe8, G: 0xe8, B: 0xe8, A: 0xff}
	momentColour = color.RGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
)

// headroom is left above the greatest value for the names of spans and lines.
const headroom = 1.35

// lineHeight is that of the name of a span, as a part of the panel's height: each stands below the last.
const lineHeight = 0.07

// draw lays the panels out, row by row.
func (f *Figure) draw(canvas draw.Canvas) error {
	rows, columns := f.grid()
	tiles := draw.Tiles{
		Rows:     rows,
		Cols:     columns,
		PadY:     4 * vg.Millimeter,
		PadX:     4 * vg.Millimeter,
		PadTop:   vg.Millimeter,
		PadRight: 2 * vg.Millimeter,
	}
	top := f.top() * headroom
	for i, panel := range f.Panels {
		p, err := panel.plot(top)
		if err != nil {
			return err
		}
		p.X.Label.Text, p.Y.Label.Text = f.X, f.Y
		p.Draw(tiles.At(canvas, i%columns, i/columns))
	}
	return nil
}

// plot makes one panel, up to a greatest value.
func (panel *Panel) plot(top float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = panel.Title
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle,
		&p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.Legend.Top, p.Legend.Left = true, false
	p.BackgroundColor = color.White
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, spanColour
	p.Add(grid)
	for i, s := range panel.Spans {
		if err := s.add(p, 0, top, top*(1-lineHeight*float64(i))); err != nil {
			return nil, err
		}
	}
	for i, l := range panel.Lines {
		line, err := plotter.NewLine(points(l.Points))
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = lineColours[i%len(lineColours)], vg.Points(0.9)
		p.Add(line)
		p.Legend.Add(l.Name, line)
	}
	p.Y.Min, p.Y.Max = 0, top
	return p, nil
}

// points are a line's points as the library takes them.
type points []Point

func (p points) Len() int                { return len(p) }
func (p points) XY(i int) (x, y float64) { return p[i].X, p[i].Y }

// add draws a span behind later elements, with its name at its left.
func (s Span) add(p *plot.Plot, bottom, top, nameAt float64) error {
	if s.To <= s.From {
		stroke, err := plotter.NewLine(plotter.XYs{{X: s.From, Y: bottom}, {X: s.From, Y: top}})
		if err != nil {
			return err
		}
		stroke.Color, stroke.Dashes = momentColour, []vg.Length{vg.Points(3), vg.Points(2)}
		p.Add(stroke)
	} else {
		field, err := plotter.NewPolygon(plotter.XYs{{X: s.From, Y: bottom}, {X: s.To, Y: bottom},
			{X: s.To, Y: top}, {X: s.From, Y: top}})
		if err != nil {
			return err
		}
		field.Color, field.LineStyle.Width = spanColour, 0
		p.Add(field)
	}
	name, err := plotter.NewLabels(
		plotter.XYLabels{XYs: plotter.XYs{{X: s.From, Y: nameAt}}, Labels: []string{" " + s.Name}})
	if err != nil {
		return err
	}
	name.TextStyle[0].YAlign = draw.YTop
	name.TextStyle[0].Font.Size, name.TextStyle[0].Font.Variant = vg.Points(9), "Sans"
	p.Add(name)
	return nil
}
