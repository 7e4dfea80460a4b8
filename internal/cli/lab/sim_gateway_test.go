package lab

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/netcraq/netcraq/internal/cli/clitest"
)

func TestSimGateway(t *testing.T) {
	examples := t.TempDir()
	for _, c := range []struct {
		name, without string
		violated      bool
	}{{"all rules", "", false}, {"without intent", "intent", true}} {
		t.Run(c.name, func(t *testing.T) {
			out, _, err := clitest.Execute(t.Context(), newSimCommand(), "--gateway", "--seeds", "10", "--json",
				"--without", c.without, "--counterexamples", examples)
			var r gatewaySimResult
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
}
