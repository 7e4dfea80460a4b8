package mutate

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/internal/verify/harness"
	artefacts "github.com/netcraq/netcraq/p4"
)

// P4 is the program of P4 nodes, as p4c compiles it, as a [Subject]. Its tests are the vectors, whose tails send their
// ACKs to all members or up the chain, and random packets.
type P4 struct {
	node    *harness.P4
	lines   []string
	mutants []Mutant
	cases   [2][]conformance.Case
	packets int
	seed    uint64
}

// NewP4 makes a subject whose random packets come from a seed. It needs the software switch.
func NewP4(packets int, seed uint64) (s *P4, err error) {
	s = &P4{node: harness.NewP4(), packets: packets, seed: seed}
	s.lines, s.mutants = conditionsOfP4(string(artefacts.Program))
	cases, err := conformance.Vectors()
	if err != nil {
		return nil, err
	}
	for i, relay := range []bool{false, true} {
		if s.cases[i], _, err = conformance.OfSwitch(cases, relay); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends the switch.
func (s *P4) Close() error { return s.node.Close() }

// Mutants implements [Subject].
func (s *P4) Mutants() []Mutant { return s.mutants }

var (
	jumpOfP4  = regexp.MustCompile(`\bjmp(?:eq|neq|lt|gt|v|nv) (\w+) .*`)
	blockOfP4 = regexp.MustCompile(`^(?:action (\w+) |(apply) |\t(\w+) :)`)
)

// neverOfP4 is a condition that does not hold anywhere.
const neverOfP4 = "m.local_metadata_op m.local_metadata_op"

// conditionsOfP4 returns a program's lines, and the mutants of its conditional jumps.
func conditionsOfP4(program string) (lines []string, all []Mutant) {
	lines = strings.Split(program, "\n")
	block := ""
	for i, line := range lines {
		if found := blockOfP4.FindStringSubmatch(line); found != nil {
			block = found[1] + found[2] + found[3]
		}
		jump := jumpOfP4.FindString(line)
		if jump == "" {
			continue
		}
		for _, change := range []string{Always, Never} {
			all = append(all, Mutant{
				Function: block, File: "p4/netcraq.spec", Line: i + 1, Text: jump, Change: change, number: len(all),
			})
		}
	}
	return lines, all
}

// programOf returns the program of a mutant.
func (s *P4) programOf(m *Mutant) []byte {
	with := "jmp $1"
	if m.Change == Never {
		with = "jmpneq $1 " + neverOfP4
	}
	lines := append([]string(nil), s.lines...)
	lines[m.Line-1] = jumpOfP4.ReplaceAllString(lines[m.Line-1], with)
	return []byte(strings.Join(lines, "\n"))
}

// Try implements [Subject]. A switch that does not start with a mutant refuses it; one that ends later notices it.
func (s *P4) Try(ctx context.Context, m *Mutant) (v Verdict, err error) {
	var program []byte
	if m != nil {
		program = s.programOf(m)
	}
	if err := s.node.SetProgram(program); err != nil {
		return v, err
	}
	if err := s.node.Reset(s.cases[0][0].Options); err != nil {
		if m == nil || ctx.Err() != nil {
			return v, err
		}
		return Verdict{Fate: Refused, Why: err.Error()}, nil
	}
	for i, name := range []string{"vectors", "vectors with --relay"} {
		failure, err := conformance.FirstFailure(ctx, s.node, s.cases[i])
		if failure != nil {
			err = fmt.Errorf("%s: %s", failure.Case, failure.Why)
		}
		if err != nil {
			return noticed(ctx, name, err)
		}
	}
	difference, err := conformance.Compare(ctx, s.node, conformance.RandomOptions{
		Packets: s.packets, Seed: s.seed, Within: harness.P4Within,
	})
	if difference != nil {
		err = fmt.Errorf("packet %d: %s", difference.Packet, difference.What)
	}
	if err != nil {
		return noticed(ctx, "random packets", err)
	}
	return Verdict{Fate: Survived}, nil
}

// noticed is the verdict of a test that fails, unless it was interrupted.
func noticed(ctx context.Context, by string, err error) (Verdict, error) {
	if ctx.Err() != nil {
		return Verdict{}, ctx.Err()
	}
	return Verdict{Fate: Noticed, By: by, Why: err.Error()}, nil
}
