package mutate

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// Fate is the outcome of a mutant's tests.
type Fate string

const (
	Noticed  Fate = "noticed"
	Survived Fate = "survived"
	Refused  Fate = "refused" // by the kernel's verifier: no node can run it
)

// Verdict is what became of a mutant.
type Verdict struct {
	Fate Fate
	By   string // the test that noticed it
	Why  string // what the test or the verifier said
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
	Tried     int            `json:"tried"`   // noticed or survived
	Noticed   int            `json:"noticed"`
	NoticedBy map[string]int `json:"noticed_by"`
	Survived  int            `json:"survived"`
	Percent   float64        `json:"survived_percent"` // of those tried
	Refused   int            `json:"refused"`          // not among those tried
	Survivors []Mutant       `json:"survivors"`
}

// Run tries a sample of mutants: as many that the verifier takes, or all that there are. It reports each verdict. First
// it runs the tests on the unchanged code, which has to pass.
func Run(ctx context.Context, s Subject, sample int, seed uint64, report func(m *Mutant, v Verdict)) (*Result, error) {
	all := s.Mutants()
	v, err := s.Try(ctx, nil)
	if err != nil {
		return nil, err
	}
	if v.Fate != Survived {
		return nil, fmt.Errorf("the unchanged code is %s by %s: %s", v.Fate, v.By, v.Why)
	}
	r := &Result{Seed: seed, Mutants: len(all), NoticedBy: make(map[string]int), Survivors: []Mutant{}}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all)) {
		if r.Tried == sample {
			break
		}
		m := &all[i]
		v, err := s.Try(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("%s, %q %s: %w", m.Place(), m.Text, m.Change, err)
		}
		r.count(m, v)
		report(m, v)
	}
	return r, nil
}

func (r *Result) count(m *Mutant, v Verdict) {
	switch v.Fate {
	case Refused:
		r.Refused++
		return
	case Noticed:
		r.Noticed++
		r.NoticedBy[v.By]++
	case Survived:
		r.Survived++
		r.Survivors = append(r.Survivors, *m)
	}
	r.Tried++
	r.Percent = 100 * float64(r.Survived) / float64(r.Tried)
}
