package core

import (
	"slices"
	"testing"
)

// TestBeside: what is left of a range beside the gateways' own keys, which are those from "n/" to "n0". A range
// of own keys alone, or of none, is executed as it is.
func TestBeside(t *testing.T) {
	const infinite = "\x00"
	for _, c := range []struct {
		span  Span
		parts []Span // none: the span is executed as it is
	}{
		{Span{"a", infinite}, []Span{{"a", "n/"}, {"n0", infinite}}},
		{Span{"a", "z"}, []Span{{"a", "n/"}, {"n0", "z"}}},
		{Span{"a", "n0"}, []Span{{"a", "n/"}}},
		{Span{"a", "n/k"}, []Span{{"a", "n/"}}},
		{Span{"n/", infinite}, []Span{{"n0", infinite}}},
		{Span{"n/k", "z"}, []Span{{"n0", "z"}}},
		{Span{"n/", "n0"}, nil},
		{Span{"n/k", "n/l"}, nil},
		{Span{"a", "b"}, nil},
		{Span{"a", "n/"}, nil},
		{Span{"n0", "z"}, nil},
		{Span{"n0", infinite}, nil},
		{Span{"x", infinite}, nil},
		{Span{"a", ""}, nil},
		{Span{"n/k", ""}, nil},
	} {
		parts, covers := Beside(c.span, "n/", "n0", 0)
		if !slices.Equal(parts, c.parts) || covers != (c.parts != nil) {
			t.Errorf("%q: %q, %v", c.span, parts, covers)
		}
	}
	if parts, covers := Beside(Span{"a", "z"}, "n/", "n0", Hide); covers {
		t.Errorf("%q without the rule", parts)
	}
}
