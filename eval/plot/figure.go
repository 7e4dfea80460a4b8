package plot

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// Figure is one picture.
type Figure struct {
	X, Y   string // titles of the axes, with the unit
	Rows   int    // in which the panels stand, one after the other; 0: one
	Panels []Panel
}

// Panel is one of the diagrams of a figure.
type Panel struct {
	Title string
	Lines []Line
	Spans []Span
}

// Line is a quantity over time.
type Line struct {
	Name   string
	Points []Point
}

// Point is one value.
type Point struct{ X, Y float64 }

// Span is a stretch of time that has a name, drawn behind the lines. One without length is a moment,
// drawn as a stroke.
type Span struct {
	Name     string
	From, To float64
}

// Size of one panel, and of a picture made of dots.
const (
	panelWidth  = 12 * vg.Centimeter
	panelHeight = 8 * vg.Centimeter
	dotsPerInch = 160
)

// WriteFiles writes the figure as PATH.svg, PATH.png and PATH.csv and returns their names.
func (f *Figure) WriteFiles(path string) ([]string, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, kind := range []struct {
		extension string
		write     func(io.Writer) error
	}{{".svg", f.WriteSVG}, {".png", f.WritePNG}, {".csv", f.WriteCSV}} {
		names = append(names, path+kind.extension)
		if err := writeFile(path+kind.extension, kind.write); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		file.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Close()
}

// WriteSVG draws the figure with lines, which can be enlarged.
func (f *Figure) WriteSVG(w io.Writer) error {
	width, height := f.size()
	return writeSVG(w, width, height, f.draw)
}

// WritePNG draws the figure with dots.
func (f *Figure) WritePNG(w io.Writer) error {
	width, height := f.size()
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dotsPerInch))
	if err := f.draw(draw.New(canvas)); err != nil {
		return err
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

func (f *Figure) size() (width, height vg.Length) {
	rows, columns := f.grid()
	return panelWidth * vg.Length(columns), panelHeight * vg.Length(rows)
}

func (f *Figure) grid() (rows, columns int) {
	rows = max(f.Rows, 1)
	return rows, max((len(f.Panels)+rows-1)/rows, 1)
}

// WriteCSV writes every point on a line of its own.
func (f *Figure) WriteCSV(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "panel,line,%s,%s\n", cell(f.X), cell(f.Y)); err != nil {
		return err
	}
	for _, p := range f.Panels {
		for _, l := range p.Lines {
			for _, at := range l.Points {
				if _, err := fmt.Fprintf(w, "%s,%s,%g,%g\n", cell(p.Title), cell(l.Name), at.X, at.Y); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cell quotes a field of a CSV file.
func cell(text string) string {
	if !strings.ContainsAny(text, ",\"\n") {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

// top is the greatest value of all panels, or 1.
func (f *Figure) top() float64 {
	top := 0.0
	for _, p := range f.Panels {
		for _, l := range p.Lines {
			for _, at := range l.Points {
				top = math.Max(top, at.Y)
			}
		}
	}
	if top == 0 {
		return 1
	}
	return top
}
