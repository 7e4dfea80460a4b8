package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// label is a text of a picture, with the box that it needs about.
type label struct {
	text                     string
	left, right, base, above float64
}

// apart is the least distance between a label and a line of an axis or a tick, in points.
const apart = 1

var (
	fontSize = regexp.MustCompile(`font-size:([0-9.]+)`)

	// axisLine finds the ends of lines of axes and ticks. Their ordinates grow upwards, those of texts downwards.
	axisLine = regexp.MustCompile(
		`<path d="M([-0-9.]+),([-0-9.]+)L([-0-9.]+),([-0-9.]+)" style="fill:none;stroke:#000000;stroke-width:0.5" />`)
)

// labels returns the horizontal texts of an SVG picture.
func labels(t *testing.T, svg []byte) (found []label) {
	t.Helper()
	turned := 0 // depth below a rotated group
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			attributes := make(map[string]string)
			for _, a := range e.Attr {
				attributes[a.Name.Local] = a.Value
			}
			if turned > 0 || strings.Contains(attributes["transform"], "rotate") {
				turned++
			}
			if e.Name.Local != "text" || turned > 0 {
				continue
			}
			size := fontSize.FindStringSubmatch(attributes["style"])
			if size == nil {
				t.Fatalf("a text without a size: %v", attributes)
			}
			var l label
			if err := decoder.DecodeElement(&l.text, &e); err != nil {
				t.Fatal(err)
			}
			x, base, height := number(t, attributes["x"]), number(t, attributes["y"]), number(t, size[1])
			style := plainText()
			style.Font.Size = vg.Length(height)
			width := float64(style.Width(l.text))
			if math.Abs(width-number(t, attributes["textLength"])) > 0.01 {
				t.Errorf("%q takes %g, and readers give it %q", l.text, width, attributes["textLength"])
			}
			l.left, l.right = x, x+width
			l.base, l.above = base, base-height*0.7
			found = append(found, l)
		case xml.EndElement:
			turned = max(0, turned-1)
		}
	}
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLabelsAreApart: names of spans, lines, axes and ticks do not lie over one another, also where a failure and its
// repair begin at almost the same time.
func TestLabelsAreApart(t *testing.T) {
	figure := example()
	figure.Panels[0].Spans[0].From = 3.1
	out := new(bytes.Buffer)
	if err := figure.WriteSVG(out); err != nil {
		t.Fatal(err)
	}
	found := labels(t, out.Bytes())
	if len(found) < 20 {
		t.Errorf("the picture has %d texts", len(found))
	}
	for i, a := range found {
		for _, b := range found[:i] {
			if a.left < b.right && b.left < a.right && a.above < b.base && b.above < a.base {
				t.Errorf("%q lies over %q", a.text, b.text)
			}
		}
	}
}

// drawExamples draws the example chart and the example figure.
func drawExamples(t *testing.T) (chart, figure []byte) {
	t.Helper()
	var c, f bytes.Buffer
	if err := exampleChart().WriteSVG(&c); err != nil {
		t.Fatal(err)
	}
	if err := example().WriteSVG(&f); err != nil {
		t.Fatal(err)
	}
	return c.Bytes(), f.Bytes()
}

// TestLabelsAreOffTheAxes: no text lies over a line of an axis or of a tick, or touches one.
func TestLabelsAreOffTheAxes(t *testing.T) {
	chart, figure := drawExamples(t)
	for name, svg := range map[string][]byte{"chart": chart, "figure": figure} {
		lines := axisLine.FindAllSubmatch(svg, -1)
		if len(lines) < 20 {
			t.Errorf("%s: the axes have %d lines", name, len(lines))
		}
		for _, line := range lines {
			var end [4]float64
			for i := range end {
				end[i] = number(t, string(line[i+1]))
			}
			left, right := min(end[0], end[2])-apart, max(end[0], end[2])+apart
			above, below := -max(end[1], end[3])-apart, -min(end[1], end[3])+apart
			for _, l := range labels(t, svg) {
				if l.left < right && left < l.right && l.above < below && above < l.base {
					t.Errorf("%s: %q touches the line from %g, %g to %g, %g", name, l.text, end[0], end[1], end[2], end[3])
				}
			}
		}
	}
}

// sample finds strokes of the legend: horizontal ones of a series' width and colour.
var sample = regexp.MustCompile(`<path d="M([-0-9.]+),([-0-9.]+)L([-0-9.]+),([-0-9.]+)" ` +
	`style="fill:none;stroke:#[0-9A-F]+;stroke-width:(?:0.9|1.3)(?:;[^"]*)?" />`)

// TestLegendsLinesAreOffItsWords: each entry of the legend has a stroke beside its words, at their height. No stroke of
// another entry touches the words. The picture states the widths of its texts, so the test does not depend on fonts.
func TestLegendsLinesAreOffItsWords(t *testing.T) {
	chart, figure := drawExamples(t)
	for _, picture := range []struct {
		svg     []byte
		entries map[string]int // and how many diagrams name them
	}{
		{chart, map[string]int{"NetCRAQ": 1, "NetCRAQ, dirty": 1, "NetChain": 1, "NetCRAQ as published": 1, "etcd": 1,
			"ZooKeeper": 1, "Redis": 1}},
		{figure, map[string]int{"reads": 2, "writes, acknowledged": 1}},
	} {
		var strokes [][4]float64
		for _, found := range sample.FindAllSubmatch(picture.svg, -1) {
			var end [4]float64
			for i := range end {
				end[i] = number(t, string(found[i+1]))
			}
			if end[1] == end[3] {
				strokes = append(strokes, end)
			}
		}
		for _, l := range labels(t, picture.svg) {
			if picture.entries[l.text] == 0 {
				continue
			}
			picture.entries[l.text]--
			beside := 0
			for _, end := range strokes {
				if end[1] < -l.base || end[1] > -l.above {
					continue
				}
				left, right := l.left-max(end[0], end[2]), min(end[0], end[2])-l.right
				if gap := max(left, right); gap < apart {
					t.Errorf("the stroke from %g to %g at %g runs through %q, from %g to %g", end[0], end[2], end[1], l.text, l.left, l.right)
				} else if gap < 8 {
					beside++
				}
			}
			if beside != 1 {
				t.Errorf("%q has %d strokes beside it", l.text, beside)
			}
		}
		for entry, left := range picture.entries {
			if left != 0 {
				t.Errorf("the legend does not have %q as often as it should: %d are missing", entry, left)
			}
		}
	}
}
