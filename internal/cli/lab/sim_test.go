package lab

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

func simFor(seeds uint64) simFlags {
	return simFlags{protocol: "netcraq", seeds: seeds, first: 1, plane: "chain", jobs: 2, json: true}
}

// simulate runs `netcraq sim --json` and parses its output.
func simulate(t *testing.T, flags simFlags, progress io.Writer) (SimResult, error) {
	t.Helper()
	var out bytes.Buffer
	runErr := runSim(t.Context(), &out, progress, &flags)
	var r SimResult
	decoder := json.NewDecoder(&out)
	if err := decoder.Decode(&r); err != nil {
		t.Fatalf("%v (%v)", err, runErr)
	}
	if decoder.More() {
		t.Error("more than one object was printed")
	}
	return r, runErr
}

func TestSim(t *testing.T) {
	r, err := simulate(t, simFor(20), io.Discard)
	ran := r.Seeds == 20 && r.Ops > 0 && r.Reconfigurations > 0
	if err != nil || !ran || r.Violations != 0 || r.SeedOfFirst != nil || r.Counterexample != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSimExplains expects an error (exit status 1), the seed, its last steps, a command that shows
// them again, and a file with all of this.
func TestSimExplains(t *testing.T) {
	flags := simFor(20)
	flags.without, flags.examples = "W2", t.TempDir()
	var progress bytes.Buffer
	r, err := simulate(t, flags, &progress)
	if err == nil || r.Violations == 0 || r.SeedOfFirst == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	_, again, found := strings.Cut(progress.String(), "again: netcraq sim ")
	if !found {
		t.Fatalf("no command in:\n%s", progress.String())
	}
	if r.Counterexample == nil {
		t.Fatal("no file is named")
	}
	text, err := os.ReadFile(*r.Counterexample)
	if err != nil || !strings.HasSuffix(progress.String(), string(text)) || !strings.Contains(string(text), again) {
		t.Errorf("%s: %v\n%s", *r.Counterexample, err, text)
	}
	c := newSimCommand()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(io.Discard)
	c.SetArgs(strings.Fields(again))
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(out.String(), "not linearizable") {
		t.Errorf("%s: %v\n%s", again, err, out.String())
	}
}

func TestSimRefuses(t *testing.T) {
	for name, change := range map[string]func(*simFlags){
		"no seeds":         func(f *simFlags) { f.seeds = 0 },
		"unknown plane":    func(f *simFlags) { f.plane = "soft" },
		"unknown rule":     func(f *simFlags) { f.without = "W3" },
		"unknown fault":    func(f *simFlags) { f.quiet = "loss,rain" },
		"shards":           func(f *simFlags) { f.shards = 3 },
		"negative clients": func(f *simFlags) { f.clients = -1 },
		"many clients":     func(f *simFlags) { f.clients = 1000 },
	} {
		flags := simFor(1)
		change(&flags)
		var out bytes.Buffer
		if err := runSim(t.Context(), &out, io.Discard, &flags); cli.ExitStatus(err,
			true) != cli.ExitUsage || out.Len() != 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}
