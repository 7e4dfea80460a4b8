package mutate

import (
	"context"
	"errors"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// ProgramsOfXDP are the programs that the vectors run.
var ProgramsOfXDP = []string{"nq_ingress", "nq_bundle", "nq_egress_test", "nq_nearby", "nq_set_heart"}

// XDP is the node's bytecode as a [Subject]. Its tests are the vectors and random packets, without tags and with them.
type XDP struct {
	node    *harness.XDP
	mutants []Mutant
	first   map[string]int // number of a program's first mutant
	marks   *marks
	cases   []conformance.Case
	packets int
	seed    uint64
	tests   []test
	plain   []trace // of the unchanged code, by test
}

// trace is what messages do in a test.
type trace struct {
	reached []bool // by mutant
	slow    uint64 // how often they entered the slow path
}

// NewXDP makes a subject whose random packets come from a seed. It needs root.
func NewXDP(packets int, seed uint64) (*XDP, error) {
	programs, err := xdp.Programs()
	if err != nil {
		return nil, err
	}
	s := &XDP{packets: packets, seed: seed, first: make(map[string]int)}
	for _, name := range ProgramsOfXDP {
		s.first[name] = len(s.mutants)
		s.mutants = append(s.mutants, conditionals(name, programs[name].Instructions)...)
	}
	for i := range s.mutants {
		s.mutants[i].number = i
	}
	if s.cases, err = conformance.Vectors(); err != nil {
		return nil, err
	}
	if s.node, err = harness.NewXDP(); err != nil {
		return nil, err
	}
	if s.marks, err = newMarks(len(s.mutants)); err != nil {
		return nil, errors.Join(err, s.node.Close())
	}
	s.tests = s.allTests()
	return s, nil
}

// Close frees the node.
func (s *XDP) Close() error { return errors.Join(s.node.Close(), s.marks.table.Close()) }

// Mutants implements [Subject].
func (s *XDP) Mutants() []Mutant { return s.mutants }

// test is a step of the tests; it returns what differs, or "".
type test struct {
	name string
	run  func(ctx context.Context) (string, error)
}

// plainRounds is the number of streams of random packets without tags. Each has options of its own.
const plainRounds = 5

// allTests returns the tests: first one that notices most mutants, the slow ones last. Each change of options loads the
// programs anew, which takes most of the time: with tags only the vectors with the default options run.
func (s *XDP) allTests() []test {
	groups := byOptions(s.cases)
	all := []test{{"vectors", s.vectors(s.node, groups[0])}}
	phases := []wire.Tags{wire.TagsRequired, wire.TagsSent, wire.TagsAccepted}
	packets := s.packets / (plainRounds + len(phases))
	for i := range plainRounds {
		all = append(all, test{"random packets", s.random(s.node, packets, s.seed+uint64(i))})
	}
	for _, cases := range groups[1:] {
		all = append(all, test{"vectors", s.vectors(s.node, cases)})
	}
	for _, phase := range phases {
		tagged := &conformance.Tagged{Keyed: s.node, Phase: phase}
		all = append(all, test{"tagged random packets", s.random(tagged, packets, s.seed)})
	}
	tagged := &conformance.Tagged{Keyed: s.node}
	return append(all, test{"tagged vectors", s.vectors(tagged, groups[0])})
}

// byOptions returns the cases by their options, in the order in which these first appear.
func byOptions(cases []conformance.Case) (groups [][]conformance.Case) {
	number := make(map[chain.Options]int)
	for _, c := range cases {
		n, ok := number[c.Options]
		if !ok {
			n = len(groups)
			number[c.Options], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], c)
	}
	return groups
}

func (s *XDP) vectors(t conformance.Target, cases []conformance.Case) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		failure, err := conformance.FirstFailure(ctx, t, cases)
		if failure == nil || err != nil {
			return "", err
		}
		return failure.Case + ": " + failure.Why, nil
	}
}

func (s *XDP) random(t conformance.Target, packets int, seed uint64) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		difference, err := conformance.Compare(ctx, t, conformance.RandomOptions{Packets: packets, Seed: seed})
		if difference == nil || err != nil {
			return "", err
		}
		return difference.What, nil
	}
}

// Try implements [Subject]. A program that fails at run time is noticed, as one with wrong results is. It leaves out the
// tests in which no message goes the way that the mutant closes: they have the same results.
func (s *XDP) Try(ctx context.Context, m *Mutant) (Verdict, error) {
	if m == nil {
		return s.trace(ctx)
	}
	if err := s.node.SetChange(s.changeOf(m)); err != nil {
		return Verdict{}, err
	}
	class := Unreached
	for i, t := range s.tests {
		if !s.plain[i].reached[m.number] {
			continue
		}
		if class == Unreached {
			class = Unnoticed
		}
		v, slow, err := s.run(ctx, t)
		if v.Fate != Survived || err != nil {
			return v, err
		}
		if slow > s.plain[i].slow {
			class = Slower
		}
	}
	if class == Unreached { // the verifier has not seen it
		if err := s.node.Reset(s.cases[0].Options); errors.Is(err, xdp.ErrRefused) {
			return Verdict{Fate: Refused, Why: err.Error()}, nil
		} else if err != nil {
			return Verdict{}, err
		}
	}
	return Verdict{Fate: Survived, Class: class}, nil
}

// run runs a test on a mutant.
func (s *XDP) run(ctx context.Context, t test) (v Verdict, slow uint64, err error) {
	why, err := t.run(ctx)
	switch {
	case ctx.Err() != nil:
		return v, 0, ctx.Err()
	case errors.Is(err, xdp.ErrRefused):
		return Verdict{Fate: Refused, By: t.name, Why: err.Error()}, 0, nil
	case errors.Is(err, errNoTarget):
		return v, 0, err
	case err != nil:
		return Verdict{Fate: Noticed, By: t.name, Why: err.Error()}, 0, nil
	case why != "":
		return Verdict{Fate: Noticed, By: t.name, Why: why}, 0, nil
	}
	_, slow, err = s.marks.take()
	return Verdict{Fate: Survived}, slow, err
}

// trace runs the tests on the unchanged code, with marks.
func (s *XDP) trace(ctx context.Context) (Verdict, error) {
	if err := s.node.SetChange(s.marked); err != nil {
		return Verdict{}, err
	}
	s.plain = nil
	for _, t := range s.tests {
		why, err := t.run(ctx)
		if err != nil {
			return Verdict{}, err
		}
		if why != "" {
			return Verdict{Fate: Noticed, By: t.name, Why: why}, nil
		}
		reached, slow, err := s.marks.take()
		if err != nil {
			return Verdict{}, err
		}
		s.plain = append(s.plain, trace{reached, slow})
	}
	return Verdict{Fate: Survived}, nil
}

// Unreached returns the mutants of which no test notices anything, because no message goes the way that they close. It
// is known after the tests have run on the unchanged code.
func (s *XDP) Unreached() (all []Mutant) {
	for i, m := range s.mutants {
		if !slices.ContainsFunc(s.plain, func(t trace) bool { return t.reached[i] }) {
			all = append(all, m)
		}
	}
	return all
}

// marked changes the programs so that they set marks and do the same otherwise.
func (s *XDP) marked(programs map[string]*ebpf.ProgramSpec) (err error) {
	for name, first := range s.first {
		p := programs[name]
		code, err := s.marks.countSlow(p.Instructions)
		if err != nil {
			return err
		}
		if p.Instructions, err = s.marks.mark(code, first); err != nil {
			return err
		}
	}
	return nil
}

func (s *XDP) changeOf(m *Mutant) xdp.Change {
	return func(programs map[string]*ebpf.ProgramSpec) error {
		for name := range s.first {
			p := programs[name]
			code := p.Instructions
			if name == m.Program {
				var err error
				if code, err = force(code, m.Instruction, m.Change == Always); err != nil {
					return err
				}
			}
			counted, err := s.marks.countSlow(code)
			if err != nil {
				return err
			}
			p.Instructions = counted
		}
		return nil
	}
}
