package mutate

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"

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

// TestXDP: the tests pass on the unchanged programs and notice one change, and no message reaches another. The verifier
// refuses a third, and proves that a fourth changes nothing. A fifth makes the fast path decline.
func TestXDP(t *testing.T) {
	roottest.Need(t)
	s, err := NewXDP(t.Context(), 800, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Each further set of options takes a second.
	s.tests, s.proved = slices.DeleteFunc(s.tests, func(t test) bool { return t.vector == "" }), true
	if v, err := s.Try(t.Context(), nil); v.Fate != Survived || err != nil {
		t.Fatalf("unchanged: %v %v", v, err)
	}
	checkSlow(t, s.slowOf())
	for text, want := range map[string]Verdict{
		"if (c->state == NQ_STATE_NONE)":                                         {Fate: Noticed},
		"if ((void *)(f + 1) > end_of(ctx))":                                     {Fate: Refused},
		"if (trailer_bytes())":                                                   {Fate: Equal},
		"return !zeros && long_at(w + WORD_SESSION) && long_at(w + WORD_SEQ) &&": {Fate: Noticed, By: "fast path"},
	} {
		if got := verdicts(t, s, text, want); !slices.Contains(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write testdata/slow.txt")

// checkSlow compares how often vectors take the slow path with what is recorded: less often is no failure of a node,
// but to be recorded; more often makes it slower.
func checkSlow(t *testing.T, slow map[string]uint64) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(slow)) {
		fmt.Fprintf(&text, "%d %s\n", slow[name], name)
	}
	const file = "testdata/slow.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(recorded), text.String()); diff != "" {
		t.Errorf("messages of vectors that take the slow path: recorded -, now + (go test -update writes them)\n%s", diff)
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
		v.Why = ""
		if want.By == "" {
			v.By = ""
		}
		got = append(got, v)
	}
	if len(got) == 0 {
		t.Fatalf("no jump in %q", text)
	}
	return got
}
