package papers

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

func papersFlags(t *testing.T, protocol string, first, seeds uint64) simFlags {
	return simFlags{
		protocol: protocol, first: first, seeds: seeds, examples: t.TempDir(), jobs: 2, json: true,
	}
}

// TestSimOfThePapers expects an error (exit status 1), one JSON object, files that name their
// seeds, and no violation of this project's protocol in the same runs.
func TestSimOfThePapers(t *testing.T) {
	for _, protocol := range []string{"netchain", "netcraq-published"} {
		flags := papersFlags(t, protocol, 1, 10)
		var out bytes.Buffer
		if err := runSim(t.Context(), &out, io.Discard, &flags); cli.ExitStatus(err, true) != cli.ExitError {
			t.Errorf("%s: %v", protocol, err)
		}
		var r papersResult
		decoder := json.NewDecoder(&out)
		if err := decoder.Decode(&r); err != nil || decoder.More() {
			t.Fatal(err)
		}
		if r.Protocol != protocol || r.Seeds != 10 || r.Violations == 0 || r.SeedOfFirst == nil ||
			r.Ours.Violations != 0 || len(r.Kinds) == 0 ||
			len(r.Kinds) != len(r.Counterexamples) || r.Counterexample == nil || *r.Counterexample != r.Counterexamples[0].File {
			t.Errorf("%s: %+v", protocol, r)
		}
		for _, e := range r.Counterexamples {
			text, err := os.ReadFile(e.File)
			if err != nil || !strings.Contains(string(text), e.Kind.Title()) || !strings.Contains(string(text), e.Why) {
				t.Errorf("%s: %v\n%s", e.File, err, text)
			}
		}
	}
}

// TestSimOfThePapersAgain expects the command in a counterexample to show it again.
func TestSimOfThePapersAgain(t *testing.T) {
	flags := papersFlags(t, "netcraq-published", 4, 1)
	var out bytes.Buffer
	if err := runSim(t.Context(), &out, io.Discard, &flags); cli.ExitStatus(err, true) != cli.ExitError {
		t.Fatal(err)
	}
	var r papersResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Counterexample == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	text, err := os.ReadFile(*r.Counterexample)
	if err != nil {
		t.Fatal(err)
	}
	_, again, found := strings.Cut(string(text), "Again: netcraq sim ")
	if !found {
		t.Fatalf("no command in:\n%s", text)
	}
	c := newSimCommand()
	var shown bytes.Buffer
	c.SetOut(&shown)
	c.SetErr(io.Discard)
	c.SetArgs(strings.Fields(again))
	if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(shown.String(), string(text)) {
		t.Errorf("%s: %v\n%s", again, err, shown.String())
	}
}

func TestSimOfThePapersRefuses(t *testing.T) {
	for name, change := range map[string]func(*simFlags){
		"no seeds":         func(f *simFlags) { f.seeds = 0 },
		"no jobs":          func(f *simFlags) { f.jobs = 0 },
		"unknown protocol": func(f *simFlags) { f.protocol = "raft" },
	} {
		flags := papersFlags(t, "netchain", 1, 1)
		change(&flags)
		var out bytes.Buffer
		if err := runSim(t.Context(), &out, io.Discard, &flags); cli.ExitStatus(err,
			true) != cli.ExitUsage || out.Len() != 0 {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}

// TestSimKeepsNothingItCannot expects an error that names the flag if the directory cannot be made.
func TestSimKeepsNothingItCannot(t *testing.T) {
	flags := papersFlags(t, "netcraq-published", 4, 1)
	flags.examples = "/dev/null/here"
	if err := runSim(t.Context(), io.Discard, io.Discard, &flags); err == nil ||
		!strings.Contains(err.Error(), "--counterexamples") {
		t.Error(err)
	}
}
