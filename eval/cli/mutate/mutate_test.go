package mutate

import (
	"io"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"--plane", "soft"}, {"--sample", "0"}, {"--packets", "-1"}} {
		c := newCommand()
		c.SetArgs(args)
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(t.Context()); err == nil || cli.ExitStatus(err, true) != cli.ExitUsage {
			t.Errorf("%v: %v, want exit status %d", args, err, cli.ExitUsage)
		}
	}
}
