package plot

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func example() *Figure {
	var before, after []Point
	for i := range 100 {
		before = append(before, Point{float64(i) / 10, float64(i % 7)})
		after = append(after, Point{float64(i) / 10, float64(i % 3)})
	}
	return &Figure{X: "time, s", Y: "operations/s", Panels: []Panel{
		{
			Title: "1 shard",
			Lines: []Line{{"reads", before}, {"writes, acknowledged", after}},
			Spans: []Span{{"repair", 4, 7}, {"failure", 3, 3}},
		},
		{Title: "256 shards", Lines: []Line{{"reads", after}}},
	}}
}

func TestFigureIsWrittenThreeWays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "figure")
	names, err := example().WriteFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(names, " "), path+".svg "+path+".png "+path+".csv"; got != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
	picture, err := png.Decode(open(t, path+".png"))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() < 1000 || b.Dx() < 2*b.Dy() {
		t.Errorf("the picture of two panels is %v", b)
	}
	for decoder := xml.NewDecoder(open(t, path+".svg")); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	rows, err := csv.NewReader(open(t, path+".csv")).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+300 || rows[0][3] != "operations/s" || rows[101][1] != "writes, acknowledged" {
		t.Errorf("%d rows, the first %q", len(rows), rows[0])
	}
}

func TestFigureOfNothing(t *testing.T) {
	f := &Figure{Panels: []Panel{{Title: "nothing", Lines: []Line{{Name: "none"}}}}}
	if err := f.WritePNG(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}
