package mutate

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// decide is a program that returns 7 for a packet of more than 20 bytes and 9 for others. A function that only one
// branch calls, and constants of two places, stand between its jumps and their targets.
func decide() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word).WithSymbol("decide"), // the length
		asm.JGT.Imm(asm.R2, 20, "long"),
		asm.LoadImm(asm.R0, 1<<40, asm.DWord),
		asm.Mov.Imm(asm.R0, 9),
		asm.Return(),
		asm.LoadImm(asm.R3, 1<<41, asm.DWord).WithSymbol("long"),
		asm.Call.Label("seven"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 7).WithSymbol("seven"),
		asm.Return(),
	}
}

// resolved returns a program with distances in place of the labels of jumps, as compiled programs have them.
func resolved(code asm.Instructions) asm.Instructions {
	offsets := offsetsOf(code)
	long := code[5].WithSymbol("")
	code[1] = code[1].WithReference("")
	code[1].Offset = int16(offsets[5] - offsets[1] - 1)
	code[5] = long
	return code
}

func TestForcedJumps(t *testing.T) {
	roottest.Need(t)
	mutants := conditionals("decide", resolved(decide()))
	if len(mutants) != 2 {
		t.Fatalf("%d mutants of one jump: %v", len(mutants), mutants)
	}
	for _, m := range mutants {
		code, err := force(resolved(decide()), m.Instruction, m.Change == Always)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: code, License: "GPL"})
		if err != nil {
			t.Fatalf("%s: %v\n%v", m.Change, err, code)
		}
		defer p.Close()
		want := map[string]uint32{Always: 7, Never: 9}[m.Change]
		for _, length := range []int{14, 100} {
			got, err := p.Run(&ebpf.RunOptions{Data: make([]byte, length)})
			if err != nil || got != want {
				t.Errorf("%s taken: %d for %d bytes, want %d, %v", m.Change, got, length, want, err)
			}
		}
	}
}

// TestXDP: the tests pass on the unchanged programs, notice one change, and no message reaches another. The verifier
// refuses a third. A fourth makes the fast path decline, which changes no result.
func TestXDP(t *testing.T) {
	roottest.Need(t)
	s, err := NewXDP(800, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.tests = s.tests[:1] // each further set of options takes a second
	if v, err := s.Try(t.Context(), nil); v.Fate != Survived || err != nil {
		t.Fatalf("unchanged: %v %v", v, err)
	}
	for text, want := range map[string]Verdict{
		"if (c->state == NQ_STATE_NONE)":     {Fate: Noticed},
		"if ((void *)(f + 1) > end_of(ctx))": {Fate: Refused},
		"if (!live)":                         {Fate: Survived, Class: Unreached},
		"return !zeros && long_at(w + WORD_SESSION) && long_at(w + WORD_SEQ) &&": {Fate: Survived, Class: Slower},
	} {
		if got := verdicts(t, s, text, want); !slices.Contains(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if all := s.Unreached(); !slices.ContainsFunc(all, func(m Mutant) bool { return m.Text == "if (!live)" }) {
		t.Errorf("%d mutants are not reached, none of a missing entry of nq_live", len(all))
	}
}

// verdicts tries the mutants of a line, until one has the fate wanted.
func verdicts(t *testing.T, s *XDP, text string, want Verdict) (got []Verdict) {
	t.Helper()
	for i := range s.mutants {
		if s.mutants[i].Text != text || slices.Contains(got, want) {
			continue
		}
		v, err := s.Try(t.Context(), &s.mutants[i])
		if err != nil {
			t.Fatal(err)
		}
		v.By, v.Why = "", ""
		got = append(got, v)
	}
	if len(got) == 0 {
		t.Fatalf("no jump in %q", text)
	}
	return got
}
