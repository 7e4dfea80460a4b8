package lab

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestSimOfModels runs the simulations whose seed determines all else.
func TestSimOfModels(t *testing.T) {
	examples := t.TempDir()
	for _, c := range []struct {
		what, without string
		violated      bool
	}{{"--gateway", "", false}, {"--gateway", "intent", true}, {"--member", "", false}, {"--member", "push", true},
		{"--keyspace", "", false}, {"--keyspace", "apply", true}} {
		t.Run(c.what+" without "+c.without, func(t *testing.T) {
			out, _, err := clitest.Execute(t.Context(), newSimCommand(), c.what, "--seeds", "10", "--json",
				"--without", c.without, "--counterexamples", examples)
			var r SimResult
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r.Seeds != 10 || r.Ops == 0 || (r.Violations > 0) != c.violated || (err != nil) != c.violated {
				t.Fatalf("%+v, %v", r, err)
			}
			if !c.violated {
				return
			}
			if text, err := os.ReadFile(*r.Counterexample); err != nil || len(text) == 0 {
				t.Errorf("the counterexample: %v, %d bytes", err, len(text))
			}
		})
	}
	if _, _, err := clitest.Execute(t.Context(), newSimCommand(), "--gateway", "--without", "W2"); err == nil {
		t.Error("W2 is no rule of the gateway")
	}
	if _, _, err := clitest.Execute(t.Context(), newSimCommand(), "--member", "--without", "intent"); err == nil {
		t.Error("intent is no rule of a member")
	}
	if _, _, err := clitest.Execute(t.Context(), newSimCommand(), "--keyspace", "--without", "push"); err == nil {
		t.Error("push is no rule of a keyspace")
	}
	if _, _, err := clitest.Execute(t.Context(), newSimCommand(), "--keyspace", "--member"); err == nil {
		t.Error("two simulations at once")
	}
}
