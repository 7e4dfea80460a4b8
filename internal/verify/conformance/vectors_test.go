package conformance

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write what the reference target does into spec/vectors")

func TestVectors(t *testing.T) {
	if *update {
		updateFiles(t)
		return
	}
	cases, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), NewReference(), cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Failures {
		t.Errorf("%s\n  %s\n%s", f.Case, f.Packet, f.Why)
	}
	if r.Skipped != 0 {
		t.Errorf("the reference skipped: %v", r.SkippedWhy)
	}
	t.Logf("%d cases passed", r.Passed)
}

func updateFiles(t *testing.T) {
	files, err := filepath.Glob("../../../spec/vectors/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors found: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = Update(file, text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCaseNamesDiffer(t *testing.T) {
	cases, err := Vectors()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases are called %s", c.Name)
		}
		if seen[c.Name] = true; len(c.Steps) == 0 {
			t.Errorf("%s has no packet", c.Name)
		}
	}
}
