package mutate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Mutant is one change of a subject's code.
type Mutant struct {
	Program     string `json:"program,omitempty"` // of BPF
	Function    string `json:"function"`
	Instruction int    `json:"instruction,omitempty"` // index in the program
	File        string `json:"file"`
	Line        int    `json:"line"`
	Text        string `json:"text"` // the line, or the condition
	Code        string `json:"code,omitempty"`
	Change      string `json:"change"`

	number int // of a subject
}

// Changes of a condition.
const (
	Always   = "always"
	Never    = "never"
	Boundary = "boundary" // < becomes <=, and so on
)

// Place returns where the change is.
func (m *Mutant) Place() string { return fmt.Sprintf("%s:%d", m.File, m.Line) }

// isLike reports whether a survivor has the same change in the same line: the compiler copies functions.
func (m *Mutant) isLike(s Survivor) bool {
	return m.File == s.File && m.Line == s.Line && m.Text == s.Text && m.Change == s.Change
}

// Fate is the outcome of a mutant's tests.
type Fate string

const (
	Noticed  Fate = "noticed"
	Survived Fate = "survived"
	Refused  Fate = "refused" // by the kernel's verifier: no node can run it
	Equal    Fate = "equal"   // to the code, by the verifier's proof or by a [Reason]
)

// Class says more about a mutant that survived.
type Class string

const (
	// Unreached: no message of the tests goes the way that the mutant closes.
	Unreached Class = "unreached"
	// Slower: the tests' results are the same, but the fast path leaves more messages to the slow path. This is by
	// design: the fast path may decline any message.
	Slower Class = "slower"
	// Unnoticed: messages go that way, and the results are the same.
	Unnoticed Class = "unnoticed"
)

// Verdict is what became of a mutant.
type Verdict struct {
	Fate  Fate
	Class Class  // if it survived
	By    string // the test that noticed it, or what says that it is equal
	Why   string // what the test or the verifier said
}

// Subject is code with tests.
type Subject interface {
	// Mutants returns all mutants, always in the same order.
	Mutants() []Mutant
	// Try runs the tests on a mutant, or on the unchanged code for nil, until one fails.
	Try(ctx context.Context, m *Mutant) (Verdict, error)
}

// Result counts the fates of a sample.
type Result struct {
	Plane     string         `json:"plane"`
	Seed      uint64         `json:"seed"`
	Mutants   int            `json:"mutants"` // that there are
	Drawn     int            `json:"drawn"`   // those that were skipped included
	Tried     int            `json:"tried"`   // noticed or survived
	Noticed   int            `json:"noticed"`
	NoticedBy map[string]int `json:"noticed_by"`
	Survived  int            `json:"survived"`
	Places    int            `json:"survived_places"` // survivors with the same line and change count once
	Classes   map[Class]int  `json:"survived_classes"`
	Percent   float64        `json:"survived_percent"` // of those tried
	Refused   int            `json:"refused"`          // not among those tried
	Equal     int            `json:"equal"`            // not among those tried
	EqualBy   map[string]int `json:"equal_by"`
	Equals    []Survivor     `json:"equal_by_reason"`
	Survivors []Survivor     `json:"survivors"`
}

// Survivor is a mutant that no test noticed.
type Survivor struct {
	Mutant
	Class  Class  `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"` // why it is equal, or which test is missing
}

// Sample is a choice of mutants.
type Sample struct {
	Size  int    // how many that the verifier takes, if there are as many
	Seed  uint64 // the order in which they are drawn
	Skip  int    // how many are left out first: an earlier run drew them
	At    string // the place of all mutants to try, or empty
	Until time.Time
}

// has reports whether a mutant may be drawn.
func (s *Sample) has(m *Mutant) bool { return s.At == "" || s.At == m.Place() }

// Run tries a sample of mutants and reports each verdict. First it runs the tests on the unchanged code, which has to
// pass.
func Run(
	ctx context.Context, plane string, s Subject, sample Sample, report func(m *Mutant, v Verdict),
) (*Result, error) {
	all := s.Mutants()
	reasons, err := readReasons(reasonsText)
	if err != nil {
		return nil, err
	}
	if none := stale(reasons, plane, all); len(none) > 0 {
		return nil, fmt.Errorf("%s: no condition %q: change eval/mutate/reasons.yaml", none[0].File, none[0].Text)
	}
	v, err := s.Try(ctx, nil)
	if err != nil {
		return nil, err
	}
	if v.Fate != Survived {
		return nil, fmt.Errorf("the unchanged code is %s by %s: %s", v.Fate, v.By, v.Why)
	}
	r := &Result{
		Plane: plane, Seed: sample.Seed, Mutants: len(all), Drawn: sample.Skip,
		NoticedBy: make(map[string]int), EqualBy: make(map[string]int), Classes: make(map[Class]int),
		Survivors: []Survivor{}, Equals: []Survivor{},
	}
	order := rand.New(rand.NewPCG(sample.Seed, 0)).Perm(len(all))
	for _, i := range order[min(sample.Skip, len(order)):] {
		if r.Tried == sample.Size || !sample.Until.IsZero() && time.Now().After(sample.Until) {
			break
		}
		r.Drawn++
		m := &all[i]
		if !sample.has(m) {
			continue
		}
		v, err := s.Try(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("%s, %q %s: %w", m.Place(), m.Text, m.Change, err)
		}
		reason := reasonFor(reasons, plane, m)
		if v.Fate == Survived && reason != nil && reason.Equal != "" {
			v.Fate, v.By = Equal, "a reason"
		}
		r.count(m, v, reason)
		report(m, v)
	}
	return r, nil
}

func (r *Result) count(m *Mutant, v Verdict, reason *Reason) {
	s := Survivor{Mutant: *m, Class: v.Class}
	if reason != nil {
		s.Reason = reason.Equal + reason.Gap
	}
	switch v.Fate {
	case Equal:
		r.Equal++
		r.EqualBy[v.By]++
		if reason != nil {
			r.Equals = append(r.Equals, s)
		}
		return
	case Refused:
		r.Refused++
		return
	case Noticed:
		r.Noticed++
		r.NoticedBy[v.By]++
	case Survived:
		r.Survived++
		if v.Class != "" {
			r.Classes[v.Class]++
		}
		if !slices.ContainsFunc(r.Survivors, m.isLike) {
			r.Places++
		}
		r.Survivors = append(r.Survivors, s)
	}
	r.Tried++
	r.Percent = 100 * float64(r.Survived) / float64(r.Tried)
}
