package mutate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// ProgramsOfXDP are the programs that the vectors run.
var ProgramsOfXDP = []string{"nq_ingress", "nq_bundle", "nq_egress_test", "nq_nearby", "nq_set_heart"}

// XDP is the node's bytecode as a [Subject]. Its tests are the vectors and random packets, without tags and with them,
// and, for mutants that those do not notice, the plane's own tests.
type XDP struct {
	node     *harness.XDP
	mutants  []Mutant
	first    map[string]int // number of a program's first mutant
	marks    *marks
	cases    []conformance.Case
	packets  int
	seed     uint64
	tests    []test
	plain    []trace // of the unchanged code, by test
	loaded   variant // what the node runs
	possible []bool  // by mutant: the verifier found the way that it closes open, with some options
	proved   bool    // with the other settings too
	own      *planeTests
}

// trace is what messages do in a test.
type trace struct {
	reached []bool // by mutant
	slow    uint64 // how often they entered the slow path
}

// mutantsOfXDP returns the mutants of all programs, and the number of each program's first one.
func mutantsOfXDP() (all []Mutant, first map[string]int, err error) {
	programs, err := xdp.Programs()
	if err != nil {
		return nil, nil, err
	}
	first = make(map[string]int)
	for _, name := range ProgramsOfXDP {
		first[name] = len(all)
		all = append(all, conditionals(name, programs[name].Instructions)...)
	}
	for i := range all {
		all[i].number = i
	}
	return all, first, nil
}

// NewXDP makes a subject whose random packets come from a seed. It needs root. With the source at root, if that is not
// "", the plane's own tests run too.
func NewXDP(ctx context.Context, packets int, seed uint64, root string) (_ *XDP, err error) {
	s := &XDP{packets: packets, seed: seed}
	if s.mutants, s.first, err = mutantsOfXDP(); err != nil {
		return nil, err
	}
	s.possible = make([]bool, len(s.mutants))
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
	if root != "" {
		if s.own, err = newPlaneTests(ctx, root); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close frees the node.
func (s *XDP) Close() error {
	err := errors.Join(s.node.Close(), s.marks.table.Close())
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	return err
}

// Mutants implements [Subject].
func (s *XDP) Mutants() []Mutant { return s.mutants }

// test is a step of the tests; it returns what differs, or "".
type test struct {
	name   string
	run    func(ctx context.Context) (string, error)
	vector string // its name; how often it enters the slow path is recorded, see slowOf
	vary   variation
}

// plainRounds is the number of streams of random packets without tags. Each has options of its own.
const plainRounds = 5

// crowdedRounds is the number of streams of random packets for objects of one place.
const crowdedRounds = 2

// packetsPerState is after how many random packets the nodes get another state. A new one takes as long as some packets.
const packetsPerState = 50

// allTests returns the tests: first those that notice most mutants, the slow ones last. Each change of options loads
// the programs anew, which takes most of the time: with tags only the vectors with the default options run. Each vector
// is a test of its own, so that those run that a mutant concerns.
func (s *XDP) allTests() (all []test) {
	groups := byOptions(s.cases)
	for _, c := range groups[0] {
		all = append(all, test{name: "vectors", run: s.vector(s.node, c), vector: c.Name})
	}
	phases := []wire.Tags{wire.TagsRequired, wire.TagsSent, wire.TagsAccepted}
	packets := s.packets / (plainRounds + len(phases) + crowdedRounds)
	for i := range plainRounds {
		all = append(all, test{name: "random packets", run: s.random(s.node, packets, s.seed+uint64(i))})
	}
	for _, cases := range groups[1:] {
		for _, c := range cases {
			all = append(all, test{name: "vectors", run: s.vector(s.node, c)})
		}
	}
	for _, phase := range phases {
		tagged := &conformance.Tagged{Keyed: s.node, Phase: phase}
		all = append(all, test{name: "tagged random packets", run: s.random(tagged, packets, s.seed)})
	}
	for _, c := range groups[0] {
		all = append(all, test{name: "tagged vectors", run: s.vector(&conformance.Tagged{Keyed: s.node}, c)})
	}
	for _, c := range groups[0] {
		all = append(all, test{name: "vectors with a rate", run: s.vector(rated{s.node}, c)})
	}
	for _, c := range groups[0] {
		all = append(all, test{name: "vectors on weak memory", run: s.vector(s.node, c), vary: variation{weakMemory: true}})
	}
	for i := range crowdedRounds {
		run := s.random(s.node, packets, s.seed+uint64(plainRounds+i))
		all = append(all, test{name: "crowded random packets", run: run, vary: variation{onePlace: true}})
	}
	return append(all, s.preparedTests(groups[0])...)
}

// preparedTests returns the tests of vectors on nodes in states that no packet makes: with used tables, and with faults.
func (s *XDP) preparedTests(cases []conformance.Case) (all []test) {
	for _, others := range crowds {
		for i := range cases {
			run := s.vector(newCrowd(s.node, &cases[i], others), cases[i])
			all = append(all, test{name: "vectors in used tables", run: run, vary: variation{onePlace: true}})
		}
	}
	for i := range faults {
		f := &faults[i]
		for _, c := range cases {
			if reloads(&c) {
				all = append(all, test{name: "vectors with " + f.name, run: s.faulty(f, c), vary: variation{fault: f}})
			}
		}
	}
	return all
}

// rated is a node that limits its clients to more messages than the tests send. It takes no bundles then.
type rated struct{ *harness.XDP }

func (r rated) Reset(o chain.Options) error {
	o.ClientRate = 1_000_000
	return r.XDP.Reset(o)
}

func (r rated) Step(b []byte) (conformance.Verdict, [][]byte, error) {
	if datagram, ok := frame.Content(b); ok && wire.IsBundle(datagram) {
		return 0, nil, fmt.Errorf("%w: no bundles with a rate", conformance.ErrUnsupported)
	}
	return r.XDP.Step(b)
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

func (s *XDP) vector(t conformance.Target, c conformance.Case) func(ctx context.Context) (string, error) {
	cases := []conformance.Case{c}
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
		difference, err := conformance.Compare(ctx, t, conformance.RandomOptions{
			Packets: packets, Seed: seed, Round: packetsPerState,
		})
		if difference == nil || err != nil {
			return "", err
		}
		return difference.What, nil
	}
}

// variant is what a node runs.
type variant struct {
	known  bool
	mutant *Mutant // nil: the programs with marks
	variation
}

// variation is how the programs of a test differ from those that its options make.
type variation struct {
	weakMemory bool   // for a CPU that reorders loads
	onePlace   bool   // all objects have the same place in the table, where they crowd
	fault      *fault // of helpers
}

// values returns constants.
func (v variation) values() map[string]any {
	switch {
	case v.weakMemory:
		return map[string]any{"nq_weak_memory": uint8(1)}
	case v.onePlace:
		return map[string]any{"nq_secret": [2]uint64{}}
	case v.fault != nil:
		return v.fault.values
	}
	return nil
}

// change makes the next test load a mutant, or the programs with marks, unless they are loaded.
func (s *XDP) change(m *Mutant, t *test) error {
	next := variant{true, m, t.vary}
	if s.loaded == next {
		return nil
	}
	s.loaded = next
	if m == nil {
		return s.node.SetChange(s.marked(t.vary.values(), t.vary.fault))
	}
	return s.node.SetChange(s.changeOf(m, t.vary))
}

// Try implements [Subject]. A program that fails at run time is noticed, as one with wrong results is. It leaves out the
// tests in which no message goes the way that the mutant closes: they have the same results.
func (s *XDP) Try(ctx context.Context, m *Mutant) (Verdict, error) {
	if m == nil {
		return s.trace(ctx)
	}
	class := Unreached
	for i := range s.tests {
		t := &s.tests[i]
		if !s.plain[i].reached[m.number] {
			continue
		}
		if class == Unreached {
			class = Unnoticed
		}
		v, slow, err := s.run(ctx, m, t)
		if v.Fate != Survived || err != nil {
			return v, err
		}
		switch {
		case t.vector != "" && slow != s.plain[i].slow:
			why := fmt.Sprintf("%s: %d messages take the slow path, not %d", t.vector, slow, s.plain[i].slow)
			return Verdict{Fate: Noticed, By: "fast path", Why: why}, nil
		case slow > s.plain[i].slow:
			class = Slower
		}
	}
	if class == Unreached { // the verifier has not seen it
		if v, err := s.unreached(m); v.Fate != Survived || err != nil {
			return v, err
		}
	}
	if s.own != nil {
		if v, err := s.own.try(ctx, m); v.Fate != Survived || err != nil {
			return v, err
		}
	}
	return Verdict{Fate: Survived, Class: class}, nil
}

// unreached says what the verifier makes of a mutant that no test reaches.
func (s *XDP) unreached(m *Mutant) (Verdict, error) {
	equal, err := s.isEqual(m)
	if equal || err != nil {
		return Verdict{Fate: Equal, By: "the verifier"}, err
	}
	s.loaded = variant{}
	if err := s.node.SetChange(s.changeOf(m, variation{})); err != nil {
		return Verdict{}, err
	}
	err = s.node.Reset(s.cases[0].Options)
	if errors.Is(err, xdp.ErrRefused) {
		return Verdict{Fate: Refused, Why: err.Error()}, nil
	}
	return Verdict{Fate: Survived}, err
}

// run runs a test on a mutant.
func (s *XDP) run(ctx context.Context, m *Mutant, t *test) (v Verdict, slow uint64, err error) {
	if err := s.change(m, t); err != nil {
		return v, 0, err
	}
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
	var last *ebpf.Program
	s.plain = nil
	for i := range s.tests {
		t := &s.tests[i]
		if err := s.change(nil, t); err != nil {
			return Verdict{}, err
		}
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
		if p := s.node.Loaded()["nq_ingress"]; p != last {
			last = p
			if err := s.open(); err != nil {
				return Verdict{}, err
			}
		}
	}
	if s.own != nil {
		return s.own.trace(ctx, s)
	}
	return Verdict{Fate: Survived}, nil
}

// slowOf returns how often each vector with the default options enters the slow path, once the tests have run on the
// unchanged code. A test compares it with what is recorded: a mutant that makes it more or less often is noticed.
func (s *XDP) slowOf() map[string]uint64 {
	slow := make(map[string]uint64)
	for i, t := range s.tests {
		if t.vector != "" {
			slow[t.vector] = s.plain[i].slow
		}
	}
	return slow
}

// Unreached returns the mutants of which no test notices anything, because no message goes the way that they close, and
// which the verifier does not prove equal. It is known after the tests have run on the unchanged code.
func (s *XDP) Unreached() (all []Mutant, err error) {
	for i := range s.mutants {
		m := &s.mutants[i]
		if slices.ContainsFunc(s.plain, func(t trace) bool { return t.reached[i] }) {
			continue
		}
		equal, err := s.isEqual(m)
		if err != nil {
			return nil, err
		}
		if !equal {
			all = append(all, *m)
		}
	}
	return all, nil
}

// marked changes the programs so that they set marks and do the same otherwise, but for a fault.
func (s *XDP) marked(values map[string]any, f *fault) xdp.Change {
	return func(spec *ebpf.CollectionSpec) error {
		s.stub(spec)
		for name, first := range s.first {
			p := spec.Programs[name]
			code, err := s.marks.countSlow(p.Instructions)
			if err != nil {
				return err
			}
			if code, err = s.marks.mark(code, first); err != nil {
				return err
			}
			if p.Instructions, err = s.marks.fail(f, code); err != nil {
				return err
			}
		}
		return setValues(spec, values)
	}
}

func (s *XDP) changeOf(m *Mutant, vary variation) xdp.Change {
	return func(spec *ebpf.CollectionSpec) error {
		s.stub(spec)
		for name := range s.first {
			p := spec.Programs[name]
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
			if p.Instructions, err = s.marks.fail(vary.fault, counted); err != nil {
				return err
			}
		}
		return setValues(spec, vary.values())
	}
}
