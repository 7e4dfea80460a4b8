package plot

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"regexp"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// svgText matches a text element as the library writes it. Its groups are the attributes before the font, the style
// behind it, the size in it, and the words.
var svgText = regexp.MustCompile(`<text ([^>]*?style=")font-family:[^;"]*;([^">]*font-size:([0-9.]+)px[^>]*)>([^<]*)</text>`)

// writeSVG draws and writes a picture of a size.
func writeSVG(w io.Writer, width, height vg.Length, drawOn func(draw.Canvas) error) error {
	canvas := vgsvg.New(width, height)
	if err := drawOn(draw.New(canvas)); err != nil {
		return err
	}
	var picture bytes.Buffer
	if _, err := canvas.WriteTo(&picture); err != nil {
		return err
	}
	_, err := w.Write(fixWidths(picture.Bytes()))
	return err
}

// fixWidths has a reader give each text the width that the layout reckons with. One without the library's font takes
// another, often a wider one with serifs: lines of a legend would run through its words. A space at the
// left of a name is kept too.
func fixWidths(picture []byte) []byte {
	style := plainText()
	return svgText.ReplaceAllFunc(picture, func(text []byte) []byte {
		part := svgText.FindSubmatch(text)
		size, err := strconv.ParseFloat(string(part[3]), 64)
		words := html.UnescapeString(string(part[4]))
		if err != nil || words == "" {
			return text
		}
		style.Font.Size = vg.Length(size)
		return fmt.Appendf(nil, `<text xml:space="preserve" textLength="%.2f" lengthAdjust="spacingAndGlyphs" `+
			`%sfont-family:Liberation Sans,Arial,sans-serif;%s>%s</text>`, style.Width(words).Points(), part[1], part[2], part[4])
	})
}
