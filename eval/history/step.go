package history

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
)

// Threshold is the change, as a share, above which figures have a step.
const Threshold = 0.05

// Kind is what the figures of a name have in common. Less is better in all of them.
type Kind struct {
	Name  string // the figure's, or what stands before the slash in it
	Unit  string
	Tools []Tool // on which they depend: those of other versions are not compared
	// Kept figures must not get worse by a step without a line that says so. Users pay for them, and only a change
	// of the product moves them. The others grow with every feature.
	Kept bool
}

// Kinds are all kinds, in the order of tables and pictures.
var Kinds = []Kind{
	{"processed", "instructions", []Tool{Kernel, Clang, Arch}, true},
	{"verified", "instructions", []Tool{Clang}, true},
	{"instructions", "instructions", []Tool{Clang}, true},
	{"bytes-per-object", "bytes", []Tool{Kernel, Arch}, true},
	{"packets-per-write", "packets", nil, true},
	{"hops-per-write", "hops", nil, true},
	{"binary", "bytes", []Tool{Go, Arch}, true},
	{"lines", "lines", nil, false},
	{"words", "words", nil, false},
	{"dependencies", "modules", nil, false},
}

// KindOf returns the kind of a figure. One that is not known depends on all tools, and is not kept.
func KindOf(figure string) Kind {
	name, _, _ := strings.Cut(figure, "/")
	if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
		return Kinds[i]
	}
	return Kind{Name: name, Tools: []Tool{Kernel, Clang, Go, Arch}}
}

// Compare orders figures by their kinds, then by their names.
func Compare(a, b string) int {
	place := func(figure string) int {
		name := KindOf(figure).Name
		if i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name }); i >= 0 {
			return i
		}
		return len(Kinds)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// Step is a change of a figure by more than [Threshold].
type Step struct {
	Figure        string
	Before, After float64
	Since         string // commit of the line that has Before
}

// Change is the change as a share; infinite if there was nothing before.
func (s *Step) Change() float64 { return change(s.Before, s.After) }

// Worse reports whether a line has to say so.
func (s *Step) Worse() bool { return s.After > s.Before && KindOf(s.Figure).Kept }

func change(before, after float64) float64 {
	switch {
	case after == before:
		return 0
	case before == 0:
		return math.Inf(1)
	}
	return after/before - 1
}

// Steps compares each figure of a line with the last of earlier lines that has it from the same tools. Figures
// without such a line are fresh.
func Steps(earlier []Line, now *Line) (steps []Step, fresh []string) {
	for _, figure := range slices.SortedFunc(maps.Keys(now.Figures), Compare) {
		i := lastComparable(earlier, now, figure)
		if i < 0 {
			fresh = append(fresh, figure)
			continue
		}
		s := Step{figure, earlier[i].Figures[figure], now.Figures[figure], earlier[i].Short()}
		if math.Abs(s.After-s.Before) > Threshold*s.Before {
			steps = append(steps, s)
		}
	}
	return steps, fresh
}

// lastComparable returns the index of a line, or -1.
func lastComparable(earlier []Line, now *Line, figure string) int {
	tools := KindOf(figure).Tools
	for i, l := range slices.Backward(earlier) {
		_, has := l.Figures[figure]
		if has && !slices.ContainsFunc(tools, func(t Tool) bool { return l.Tools[t] != now.Tools[t] }) {
			return i
		}
	}
	return -1
}
