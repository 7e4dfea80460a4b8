package plot

import (
	"io"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Chart is a picture of measurements. Its diagrams share the series and one legend above them.
type Chart struct {
	Series   []Style
	Diagrams []Diagram
	Rows     int // in which the diagrams stand, one after the other; 0: one
}

// Kind is how the data of a diagram are drawn.
type Kind int

// The kinds.
const (
	Lines  Kind = iota // over an axis of numbers, with markers
	Bars               // beside each other, over categories
	Stacks             // upon each other, over categories
)

// Diagram is one of the diagrams of a chart.
type Diagram struct {
	Title      string
	Kind       Kind
	X, Y       Axis
	Categories []string  // names of X = 0, 1... if the kind has categories
	At         []float64 // places of the X axis that get a label; nil: round numbers
	Data       []Data
	Spans      []Span // behind lines
}

// Data are the points of one series.
type Data struct {
	Series int // which of the chart's
	Points []Range
	Smooth bool // a curve, without markers: too many points, or no measurement
}

// Range is a value and how far it was spread. Without Low and High it has no bar of error.
type Range struct{ X, Mid, Low, High float64 }

func (r Range) spread() bool { return r.High > r.Low }

// top is the highest place that the point's drawing takes.
func (r Range) top() float64 {
	if r.spread() {
		return max(r.Mid, r.High)
	}
	return r.Mid
}

// bottom is the lowest.
func (r Range) bottom() float64 {
	if r.spread() {
		return min(r.Mid, r.Low)
	}
	return r.Mid
}

// Size of one diagram with nothing beside it, and with others.
const (
	loneWidth    = 16 * vg.Centimeter
	sharedWidth  = 11.5 * vg.Centimeter
	chartHeight  = 8 * vg.Centimeter
	legendHeight = 15 // points, of one line of it
)

// WritePictures writes the chart as PATH.svg and PATH.png and returns their names.
func (c *Chart) WritePictures(path string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := writeFile(path+".svg", c.WriteSVG); err != nil {
		return nil, err
	}
	return []string{path + ".svg", path + ".png"}, writeFile(path+".png", c.WritePNG)
}

// WriteSVG draws the chart with lines, which can be enlarged.
func (c *Chart) WriteSVG(w io.Writer) error {
	width, height := c.size()
	return writeSVG(w, width, height, c.draw)
}

// WritePNG draws the chart with dots.
func (c *Chart) WritePNG(w io.Writer) error {
	width, height := c.size()
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))
	if err := c.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func (c *Chart) size() (width, height vg.Length) {
	rows, columns := c.grid()
	width = loneWidth
	if columns > 1 {
		width = sharedWidth * vg.Length(columns)
	}
	lines := len(c.legendLines(width))
	return width, chartHeight*vg.Length(rows) + vg.Points(legendHeight*float64(lines)+6)
}

func (c *Chart) grid() (rows, columns int) {
	rows = max(c.Rows, 1)
	return rows, max((len(c.Diagrams)+rows-1)/rows, 1)
}

// extent is the vertical range of a scaled diagram. Stacks are as high as their sum.
func (d *Diagram) extent() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	sums := make(map[float64]float64)
	for _, data := range d.Data {
		for _, p := range data.Points {
			sums[p.X] += p.Mid
			least = min(least, p.bottom())
			most = max(most, p.top())
		}
	}
	if d.Kind == Stacks {
		for _, sum := range sums {
			most = max(most, sum)
		}
	}
	if least > most {
		return 0, 1
	}
	return least, most
}
