// Package command makes a test's binary a program with all commands, for tests that need processes.
package command

import (
	"os"
	"testing"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/bench"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/controller"
	"github.com/netcraq/netcraq/internal/cli/gateway"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cli/operate"
)

// Main runs a package's tests. In a process that a test started as a command, it runs the command.
func Main(m *testing.M) {
	if os.Getenv(clitest.AsCommand) == "" {
		os.Exit(m.Run())
	}
	cli.ProductMain(kv.Commands(), node.Commands(), controller.Commands(), gateway.Commands(), operate.Commands(),
		lab.Commands(), bench.Commands())
}
