package plot

import (
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Role is the part of a series in a comparison. It decides its colour.
type Role string

// The roles.
const (
	Ours         Role = "ours"
	NetChain     Role = "netchain"
	NetCRAQPaper Role = "netcraq_published"
	Peer         Role = "peer"
	Reference    Role = "reference" // a law or a paper's value, not a measurement
)

// Style is the look of a series and its name in the legend.
type Style struct {
	Name    string
	Role    Role
	Variant int // tells apart the series of one role: 0, 1...
}

// hatch is the pattern of lines over a bar, which identifies it without colours.
type hatch int

const (
	plain hatch = iota
	rising
	falling
	level
	upright
	crossed
)

// look is a style in terms of the library.
type look struct {
	colour color.RGBA
	dashes []vg.Length
	glyph  draw.GlyphDrawer
	hatch  hatch
}

// Colours that colour-blind people can tell apart. Each peer has its own, since peers are
// different systems.
var (
	roleColours = map[Role]color.RGBA{
		Ours: {0x00, 0x5f, 0xa3, 0xff}, NetChain: {0xd5, 0x5e, 0x00, 0xff}, NetCRAQPaper: {0x00, 0x8e, 0x68, 0xff},
		Reference: {0x40, 0x40, 0x40, 0xff},
	}
	peerColours = []color.RGBA{
		{0xb0, 0x50, 0x88, 0xff},
		{0x6b, 0x6b, 0x6b, 0xff},
		{0xc9, 0x92, 0x00, 0xff},
		{0x4a, 0x9f, 0xd8, 0xff},
		{0x7a, 0x55, 0x2d, 0xff},
		{0x9b, 0x8b, 0xd0, 0xff},
		{0x2f, 0x3b, 0x52, 0xff},
	}
	peerGlyphs = []draw.GlyphDrawer{
		draw.SquareGlyph{},
		draw.PlusGlyph{},
		draw.CrossGlyph{},
		draw.RingGlyph{},
		draw.TriangleGlyph{},
		draw.BoxGlyph{},
		draw.PyramidGlyph{},
	}
	peerHatches = []hatch{level, upright, crossed, rising, falling, plain, level}
)

// roleGlyphs are the markers of a role's variants: the first is filled.
var roleGlyphs = map[Role][]draw.GlyphDrawer{
	Ours:         {draw.CircleGlyph{}, draw.RingGlyph{}, draw.PlusGlyph{}},
	NetChain:     {draw.BoxGlyph{}, draw.SquareGlyph{}, draw.CrossGlyph{}},
	NetCRAQPaper: {draw.PyramidGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}},
	Reference:    {draw.CrossGlyph{}},
}

var roleHatches = map[Role]hatch{Ours: plain, NetChain: rising, NetCRAQPaper: falling, Reference: level}

// dashes of a role's variants: whole, long, short, mixed.
var dashes = [][]vg.Length{
	nil,
	{vg.Points(6), vg.Points(2.5)},
	{vg.Points(1.5), vg.Points(2)},
	{vg.Points(6), vg.Points(2), vg.Points(1.5), vg.Points(2)},
}

// look decides how a style is drawn. Variants of a role grow paler, as bars, and have markers and
// dashes of their own.
func (s Style) look() look {
	if s.Role == Peer {
		i := s.Variant % len(peerColours)
		return look{
			colour: peerColours[i],
			dashes: dashes[s.Variant%len(dashes)],
			glyph:  peerGlyphs[i],
			hatch:  peerHatches[i],
		}
	}
	glyphs := roleGlyphs[s.Role]
	l := look{
		colour: roleColours[s.Role],
		dashes: dashes[s.Variant%len(dashes)],
		glyph:  glyphs[s.Variant%len(glyphs)],
		hatch:  roleHatches[s.Role],
	}
	if s.Variant > 0 {
		l.colour = paler(l.colour, 0.25*float64(min(s.Variant, 2)))
	}
	return l
}

// paler mixes a colour with white.
func paler(c color.RGBA, share float64) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(float64(v) + share*(255-float64(v))) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

func (l look) stroke() draw.LineStyle {
	return draw.LineStyle{Color: l.colour, Width: vg.Points(1.3), Dashes: l.dashes}
}

func (l look) marker() draw.GlyphStyle {
	return draw.GlyphStyle{Color: l.colour, Radius: vg.Points(3), Shape: l.glyph}
}
