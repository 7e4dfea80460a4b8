package mutate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const sample = `package main

import "fmt"

const fixed = 1 < 2

var without int

func kind(n int, ok bool) string {
	switch {
	case n < 3 && !ok:
		return "few"
	case n >= 10 && without&1 == 0 || fixed == ok:
		return "many"
	}
	return "some"
}

func main() { fmt.Print(kind(2, false), " ", kind(3, false), " ", kind(9, false), " ", kind(10, false)) }
`

// TestConditions runs each mutant of a program.
func TestConditions(t *testing.T) {
	p, err := instrument(fstest.MapFS{"main.go": {Data: []byte(sample)}, "main_test.go": {Data: []byte("package x")}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "sample")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary)
	for name, text := range p.files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		build.Args = append(build.Args, path)
	}
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, p.files["main.go"])
	}
	run := func(number int) string {
		c := exec.CommandContext(t.Context(), binary)
		c.Env = append(os.Environ(), mutantVariable+"="+strconv.Itoa(number))
		text, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := run(0); got != "few some some many" {
		t.Errorf("unchanged: %s", got)
	}
	want := map[string]string{
		"n < 3 always": "few few few few", "n < 3 never": "some some some many", "n < 3 boundary": "few few some many",
		"ok always": "some some some many", "ok never": "few some some many",
		"n >= 10 always": "few many many many", "n >= 10 never": "few some some some",
		"n >= 10 boundary":     "few some some some",
		"without&1 == 0 never": "few some some some", // always: the code itself
		"fixed == ok always":   "few many many many", "fixed == ok never": "few some some many",
	}
	for i := range p.mutants {
		m := &p.mutants[i]
		name := m.Text + " " + m.Change
		if got := run(m.number); got != want[name] || m.Function != "kind" {
			t.Errorf("%s in %s: %s, want %q", name, m.Function, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("no mutants %v", want)
	}
	if strings.Contains(p.files["main.go"], "fixed = nq") {
		t.Error("a constant was changed")
	}
}
