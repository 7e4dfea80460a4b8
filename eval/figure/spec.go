package figure

import (
	"context"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/plot"
)

// Spec is one figure.
type Spec struct {
	Name   string
	Title  string
	Source Source
	X      Axis
	Panels []Panel
	Rows   int // in which the panels stand; 0: one
	Series []Series
	Needs  Needs
	Quick  Plan
	Full   Plan

	// Open makes the harness. It may leave parts to the first measurement that needs them.
	Open func(context.Context, Env) (Harness, error)
	// Extra is drawn beside the measurements, as a fitted law; nil: nothing.
	Extra func(*Outcome) []Extra
	// Results are the lines for the summary.
	Results func(*Outcome) []Result
	// Notes report agreement with the source, differences, and their reasons, from the measurements.
	Notes func(*Outcome) []Note
}

// Source says where a figure comes from.
type Source struct {
	Paper   string // which, and which of its figures
	Reports string // the source's result
}

// Axis is the varied parameter.
type Axis struct {
	Label string // with the unit
	Log   bool
	Names []string // of the places 0, 1... if these are no numbers
}

// Panel is one diagram: one thing that was measured, over the axis.
type Panel struct {
	Title  string
	Metric string // a metric that the harness returns
	Label  string // of the upright axis, with the unit
	Unit   string // alone, for tables
	Log    bool
	Bars   bool      // over the names of the axis, instead of lines
	Stack  bool      // bars upon each other, one for each of Parts
	Curve  bool      // over the time within one measurement, instead of the axis
	Only   []string  // series that it shows, or of a stack metrics; empty: all
	Across string    // label of a curve's own axis
	At     []float64 // places that a curve is shown of; empty: all
	// Omit reports where pictures and tables leave the metric out, though rounds measured it; nil:
	// nowhere. It is for medians, neither for curves nor stacks, and changes nothing that is
	// measured.
	Omit func(o *Outcome, series string, x float64) bool `json:"-"`
}

// Series is one of the compared systems.
type Series struct {
	Name    string
	Role    plot.Role
	Variant int
	Has     func(x float64) bool // whether it can be measured there; nil: everywhere
}

// Plan says how much is measured.
type Plan struct {
	Xs     []float64
	Rounds int
	Window time.Duration // for which one cell is measured, once
	Budget time.Duration // for all of it, with set-up; rounds that don't fit are left out
}

// Needs are the preconditions of a figure.
type Needs struct {
	Root bool
	CPUs int // that must be there; 0: one
	// Made is a command that has to be run once before. Figures without it are made by `make figures` alone, and its
	// budget has no place for others.
	Made string
}

// Env is the environment of a harness.
type Env struct {
	Quick bool
	Plan  Plan
	Dir   string       // for temporary files, removed afterwards
	Say   func(string) // reports progress to the user
}

// Cell is one thing to measure.
type Cell struct {
	Series string  `json:"series"`
	X      float64 `json:"x"`
}

// Sample is the result of one measurement.
type Sample struct {
	Values map[string]float64      `json:"values,omitempty"` // by metric
	Curves map[string][]plot.Point `json:"curves,omitempty"` // by metric
	Spans  []plot.Span             `json:"spans,omitempty"`  // behind curves
	Detail string                  `json:"detail,omitempty"` // for people, as the name of a file
	Texts  []Text                  `json:"texts,omitempty"`  // for people, in files of their own and in the report
}

// Text is something to read that a measurement found, as a counterexample.
type Text struct {
	Name  string `json:"name"` // of its file
	Title string `json:"title"`
	Text  string `json:"text"`
}

// Harness holds the subjects of a figure's measurements, ready for load.
type Harness interface {
	// Measure puts one cell under load for a time.
	Measure(ctx context.Context, cell Cell, window time.Duration) (Sample, error)
	// Settings are how the parts are set up, for the report.
	Settings() []string
	Close()
}

// Rounds is implemented by a harness whose measurements depend on the round, as by seeds. It can't
// count rounds itself: a continued run begins with a new harness.
type Rounds interface {
	// Round says of which round the measurements are that follow.
	Round(n int)
}

// Unable is the error of a cell that can't be measured here, which is no failure: a peer is missing,
// a right, a CPU.
type Unable struct{ Why string }

func (e *Unable) Error() string { return e.Why }

// Extra is a curve that was not measured.
type Extra struct {
	Panel  string // its metric
	Style  plot.Style
	Points []plot.Point
}

// Verdict says how a note relates to the source.
type Verdict string

// The verdicts.
const (
	Agrees  Verdict = "agrees"
	Differs Verdict = "differs"
	Remark  Verdict = "note"
)

// Note is one sentence about a figure.
type Note struct {
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
}

// plan returns the plan of a mode.
func (s *Spec) plan(quick bool) Plan {
	if quick {
		return s.Quick
	}
	return s.Full
}

// cells are the cells of one round, in the order of even rounds: all series at the first place,
// then at the next, so that those compared are measured close to each other.
func (s *Spec) cells(plan Plan) []Cell {
	var cells []Cell
	for _, x := range plan.Xs {
		for _, series := range s.Series {
			if series.Has == nil || series.Has(x) {
				cells = append(cells, Cell{Series: series.Name, X: x})
			}
		}
	}
	return cells
}

// order is the order of a round. Every other round goes backwards, so that a drift of the
// machine's speed favours no series.
func order(cells []Cell, round int) []Cell {
	turned := slices.Clone(cells)
	if round%2 == 1 {
		slices.Reverse(turned)
	}
	return turned
}

// Place names a place of the axis.
func (a Axis) Place(x float64) string {
	if i := int(x); i >= 0 && i < len(a.Names) {
		return a.Names[i]
	}
	return plot.Short(x)
}

// Find returns the spec of a name, or nil.
func Find(specs []*Spec, name string) *Spec {
	for _, s := range specs {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Counting lists 0, 1... n-1: the places of an axis of names.
func Counting(n int) []float64 {
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = float64(i)
	}
	return xs
}
