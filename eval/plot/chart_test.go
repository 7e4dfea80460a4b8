package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"strings"
	"testing"
)

// exampleChart has a diagram of each kind, with logarithmic axes and values that have no place on them.
func exampleChart() *Chart {
	measured := func(scale float64) []Range {
		var points []Range
		for i := range 5 {
			v := scale * float64(i+1)
			points = append(points, Range{X: float64(i), Mid: v, Low: v * 0.8, High: v * 1.3})
		}
		return points
	}
	styles := []Style{
		{Name: "NetCRAQ", Role: Ours},
		{Name: "NetCRAQ, dirty", Role: Ours, Variant: 1},
		{Name: "NetChain", Role: NetChain},
		{
			Name: "NetCRAQ as published",
			Role: NetCRAQPaper,
		},
		{Name: "etcd", Role: Peer},
		{Name: "ZooKeeper", Role: Peer, Variant: 1},
		{Name: "Redis", Role: Peer, Variant: 2},
		{Name: "nothing of this", Role: Reference},
	}
	var data []Data
	for i := range styles[:7] {
		data = append(data, Data{Series: i, Points: measured(1e6 / float64(int(1)<<i))})
	}
	names := []string{"get", "put", "cas", "lock", "unlock"}
	return &Chart{Rows: 2, Series: styles, Diagrams: []Diagram{
		{Title: "lines", X: Axis{Label: "links"}, Y: Axis{Label: "reads/s"}, Data: data, At: []float64{0, 1, 2, 3, 4}},
		{
			Title: "logarithmic",
			X:     Axis{Label: "links"},
			Y:     Axis{Label: "reads/s", Log: true},
			Data:  append(data, Data{Series: 0, Points: []Range{{X: 2}}}),
		},
		{Title: "bars", Kind: Bars, Y: Axis{Label: "reads/s"}, Categories: names, Data: data},
		{Title: "stacks", Kind: Stacks, Y: Axis{Label: "time, s"}, Categories: names, Data: data[:4]},
	}}
}

func TestChartIsWrittenTwoWays(t *testing.T) {
	path := t.TempDir() + "/chart"
	if dir := os.Getenv("PICTURES"); dir != "" { // for the eye
		path = dir + "/chart"
	}
	names, err := exampleChart().WritePictures(path)
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	picture, err := png.Decode(open(t, path+".png"))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() < 1000 || b.Dy() < 700 {
		t.Errorf("the picture of two rows is %v", b)
	}
	text, err := io.ReadAll(open(t, path+".svg"))
	if err != nil {
		t.Fatal(err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(text), "NetCRAQ, dirty") || strings.Contains(string(text), "nothing of this") {
		t.Error("the legend does not name exactly the series that have data")
	}
	if strings.Contains(string(text), "NaN") || strings.Contains(string(text), "Inf") {
		t.Error("the picture has places that are no numbers")
	}
}

func TestChartOfNothing(t *testing.T) {
	for _, c := range []*Chart{{}, {Diagrams: []Diagram{{}, {Kind: Bars}, {Y: Axis{Log: true}, X: Axis{Log: true}}}}} {
		if err := c.WritePNG(new(bytes.Buffer)); err != nil {
			t.Error(err)
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 0.25: "0.25", 7: "7", 999.6: "1 k", 1500: "1.5 k", 2e6: "2 M",
		3.14159e9: "3.14 G", -2000: "-2 k",
	} {
		if got := Short(v); got != want {
			t.Errorf("Short(%v) is %q, want %q", v, got, want)
		}
	}
}

func TestTicksAreFew(t *testing.T) {
	for _, most := range []float64{0.004, 1, 3, 7.7, 12, 99, 1234, 5e6} {
		if n := len(roundTicks(0, most)); n < 4 || n > 12 {
			t.Errorf("0 to %v has %d ticks", most, n)
		}
	}
	labels := 0
	for _, tick := range logTicks(1, 1e9) {
		if tick.Label != "" {
			labels++
		}
	}
	if labels < 3 || labels > 7 {
		t.Errorf("nine decades have %d labels", labels)
	}
}
