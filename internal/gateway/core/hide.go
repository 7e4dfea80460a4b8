package core

// Beside returns the parts of a span that lie beside the gateways' own keys, which begin with a prefix and end before a key. covers
// is false if the span has none of them, or nothing else: a span among the own keys is executed as it is, so that operators reach
// them. Every gateway executes clients' ranges, deletions and watches beside its own keys, whether it caches or not.
func Beside(s Span, prefix, end string, without Rule) (parts []Span, covers bool) {
	infinite := s.End == "\x00"
	behind := infinite || s.End > end
	switch {
	case without&Hide != 0, s.End == "", s.From >= end, !infinite && s.End <= prefix, s.From >= prefix && !behind:
		return nil, false
	}
	if s.From < prefix {
		parts = append(parts, Span{s.From, prefix})
	}
	if behind {
		parts = append(parts, Span{end, s.End})
	}
	return parts, true
}
