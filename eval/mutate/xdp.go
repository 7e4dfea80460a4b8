package mutate

import (
	"context"
	"errors"

	"github.com/cilium/ebpf"

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
	cases   []conformance.Case
	packets int
	seed    uint64
}

// NewXDP makes a subject whose random packets come from a seed. It needs root.
func NewXDP(packets int, seed uint64) (*XDP, error) {
	programs, err := xdp.Programs()
	if err != nil {
		return nil, err
	}
	s := &XDP{packets: packets, seed: seed}
	for _, name := range ProgramsOfXDP {
		s.mutants = append(s.mutants, conditionals(name, programs[name].Instructions)...)
	}
	if s.cases, err = conformance.Vectors(); err != nil {
		return nil, err
	}
	s.node, err = harness.NewXDP()
	return s, err
}

// Close frees the node.
func (s *XDP) Close() error { return s.node.Close() }

// Mutants implements [Subject].
func (s *XDP) Mutants() []Mutant { return s.mutants }

// test is a step of the tests; it returns what differs, or "".
type test struct {
	name string
	run  func(ctx context.Context) (string, error)
}

// plainRounds is the number of streams of random packets without tags. Each has options of its own.
const plainRounds = 5

// tests returns the tests, the fast ones first. Each change of options loads the programs anew, which takes most of the
// time: with tags only the vectors with the default options run.
func (s *XDP) tests() (all []test) {
	phases := []wire.Tags{wire.TagsRequired, wire.TagsSent, wire.TagsAccepted}
	packets := s.packets / (plainRounds + len(phases))
	for i := range plainRounds {
		all = append(all, test{"random packets", s.random(s.node, packets, s.seed+uint64(i))})
	}
	all = append(all, test{"vectors", s.vectors(s.node, s.cases)})
	for _, phase := range phases {
		tagged := &conformance.Tagged{Keyed: s.node, Phase: phase}
		all = append(all, test{"tagged random packets", s.random(tagged, packets, s.seed)})
	}
	var plain []conformance.Case
	for _, c := range s.cases {
		if c.Options == s.cases[0].Options {
			plain = append(plain, c)
		}
	}
	return append(all, test{"tagged vectors", s.vectors(&conformance.Tagged{Keyed: s.node}, plain)})
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

// Try implements [Subject]. A program that fails at run time is noticed, as one with wrong results is.
func (s *XDP) Try(ctx context.Context, m *Mutant) (Verdict, error) {
	if err := s.node.SetChange(changeOf(m)); err != nil {
		return Verdict{}, err
	}
	for _, t := range s.tests() {
		why, err := t.run(ctx)
		switch {
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		case errors.Is(err, xdp.ErrRefused):
			return Verdict{Refused, t.name, err.Error()}, nil
		case errors.Is(err, errNoTarget):
			return Verdict{}, err
		case err != nil && m == nil:
			return Verdict{}, err
		case err != nil:
			return Verdict{Noticed, t.name, err.Error()}, nil
		case why != "":
			return Verdict{Noticed, t.name, why}, nil
		}
	}
	return Verdict{Fate: Survived}, nil
}

func changeOf(m *Mutant) xdp.Change {
	if m == nil {
		return nil
	}
	return func(programs map[string]*ebpf.ProgramSpec) (err error) {
		p := programs[m.Program]
		p.Instructions, err = force(p.Instructions, m.Instruction, m.Change == Always)
		return err
	}
}
