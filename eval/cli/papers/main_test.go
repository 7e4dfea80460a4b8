package papers

import (
	"os"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestMain makes the test's binary netcraq-bench in a process that a test started as a command.
func TestMain(m *testing.M) {
	if os.Getenv(clitest.AsCommand) != "" {
		cli.Main("The papers' protocols", Commands())
		return
	}
	os.Exit(m.Run())
}
