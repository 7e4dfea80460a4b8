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
	"github.com/netcraq/netcraq/internal/cni"
)

// Main runs a package's tests. In a process that a test started as a command, it runs the command,
// and in one that has the environment of a CNI plugin, netcraq-cni.
func Main(m *testing.M) {
	if os.Getenv(clitest.AsCommand) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("CNI_COMMAND") != "" {
		cni.Main()
		return
	}
	cli.ProductMain(kv.Commands(), node.Commands(), controller.Commands(), gateway.Commands(), operate.Commands(),
		lab.Commands(), bench.Commands())
}
