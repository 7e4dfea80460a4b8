package mutate

import (
	"strings"
	"testing"

	artefacts "github.com/netcraq/netcraq/p4"
)

// TestConditionsOfP4: each conditional jump of the program has two mutants, which differ from it in one line.
func TestConditionsOfP4(t *testing.T) {
	s := new(P4)
	s.lines, s.mutants = conditionsOfP4(string(artefacts.Program))
	program := string(artefacts.Program)
	if jumps := strings.Count(program, "jmp") - strings.Count(program, "jmp "); len(s.mutants) != 2*jumps {
		t.Errorf("%d mutants of %d conditional jumps", len(s.mutants), jumps)
	}
	for i := range s.mutants {
		m := &s.mutants[i]
		changed := strings.Split(string(s.programOf(m)), "\n")
		for at, line := range changed {
			if (line != s.lines[at]) != (at == m.Line-1) {
				t.Fatalf("%s %s: line %d is %q, and was %q", m.Text, m.Change, at+1, line, s.lines[at])
			}
		}
		if want := map[string]string{Always: "jmp ", Never: "jmpneq "}[m.Change]; !strings.Contains(changed[m.Line-1], want) {
			t.Errorf("%s %s: %q", m.Text, m.Change, changed[m.Line-1])
		}
	}
}
