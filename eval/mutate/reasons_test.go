package mutate

import (
	"os"
	"path/filepath"
	"testing"

	artefacts "github.com/netcraq/netcraq/p4"
)

// TestReasonsAreCurrent: each reason is for a condition of the code as it is.
func TestReasonsAreCurrent(t *testing.T) {
	reasons, err := readReasons(reasonsText)
	if err != nil {
		t.Fatal(err)
	}
	planes := make(map[string][]Mutant)
	if planes["xdp"], _, err = mutantsOfXDP(); err != nil {
		t.Fatal(err)
	}
	_, planes["p4"] = conditionsOfP4(string(artefacts.Program))
	for name, m := range machines {
		code, err := instrument(os.DirFS(filepath.Join("../..", m.dir)))
		if err != nil {
			t.Fatal(err)
		}
		planes[name] = code.mutants
	}
	for _, r := range reasons {
		if planes[r.Plane] == nil {
			t.Errorf("no plane %q", r.Plane)
		}
	}
	for plane, mutants := range planes {
		for _, r := range stale(reasons, plane, mutants) {
			t.Errorf("%s, %s: no condition %q is %s", plane, r.File, r.Text, r.Changes)
		}
	}
}

func TestReasons(t *testing.T) {
	const one = "- {plane: chain, file: a.go, text: x > 0, changes: [always], "
	for text, good := range map[string]bool{
		one + "equal: x is positive}":                         true,
		one + "gap: no test}":                                 true,
		one + "equal: x is positive, gap: no test}":           false,
		one[:len(one)-2] + "}":                                false,
		one + "why: x is positive}":                           false,
		"- {plane: chain, file: a.go, text: x > 0, equal: x}": false,
	} {
		if _, err := readReasons([]byte(text)); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	all, err := readReasons([]byte(one + "equal: x is positive}"))
	if err != nil {
		t.Fatal(err)
	}
	m := Mutant{File: "a.go", Line: 7, Text: "x > 0", Change: Always}
	if r := reasonFor(all, "chain", &m); r == nil || len(stale(all, "chain", []Mutant{m})) != 0 {
		t.Error("the reason is not for its mutant")
	}
	m.Change = Never
	if r := reasonFor(all, "chain", &m); r != nil || len(stale(all, "chain", []Mutant{m})) != 1 {
		t.Error("the reason is for another change")
	}
	if reasonFor(all, "core", &m) != nil || len(stale(all, "core", nil)) != 0 {
		t.Error("the reason is for another plane")
	}
}
