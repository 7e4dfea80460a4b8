// Package command makes a test's binary a program with all commands of the product and of its labs, for tests that need
// processes.
package command

import (
	"os"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cli/controller"
	"github.com/netcraq/netcraq/internal/cli/gateway"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cli/lab"
	"github.com/netcraq/netcraq/internal/cli/member"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cli/operate"
	"github.com/netcraq/netcraq/internal/cni"
)

// Main runs a package's tests. In a process that a test started as a command, it runs the command,
// and in one that has the environment of a CNI plugin, netcraq-cni. The program has further commands, too.
func Main(m *testing.M, further ...*cobra.Command) {
	if os.Getenv(clitest.AsCommand) == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("CNI_COMMAND") != "" {
		cni.Main()
		return
	}
	cli.ProductMain(all(), further)
}

func all() []*cobra.Command {
	return slices.Concat(kv.Commands(), node.Commands(), controller.Commands(), gateway.Commands(), member.Commands(),
		operate.Commands(), lab.Commands())
}
