package history

import (
	"testing"

	"github.com/netcraq/netcraq/internal/platform/roottest"
)

// This tree has a line without the figures of installed binaries and benchmarks, which `make history` adds.
func TestLineOfThisTree(t *testing.T) {
	roottest.Need(t)
	tree := &Tree{Dir: "../.."}
	l := &Line{Tools: make(map[Tool]string), Figures: make(map[string]float64)}
	for name, err := range map[string]error{
		"commit": l.commit(t.Context(), tree), "programs": l.programs(t.Context(), tree),
		"sources": l.sources(t.Context(), tree),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if err := l.validate(); err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{
		"processed/nq_ingress", "instructions/nq_egress", "lines/go", "lines/bpf", "words", "dependencies",
	} {
		if l.Figures[figure] < 1 {
			t.Errorf("%s is %v", figure, l.Figures[figure])
		}
	}
	if l.Tools[Kernel] == "" || l.Tools[Clang] == "" || l.Time.IsZero() {
		t.Errorf("%+v", l)
	}
}

func TestWords(t *testing.T) {
	if n := words([]byte("| a table | of 5 words |\n|---|---|\n")); n != 5 {
		t.Errorf("%d words, want 5", n)
	}
}
