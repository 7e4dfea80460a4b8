// Package product lists the commands of the program for production: its main function and the program that packs it
// share the list.
package product

import (
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/controller"
	"github.com/netcraq/netcraq/internal/cli/gateway"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cli/member"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cli/operate"
)

// Commands are the commands of the product, by group.
func Commands() [][]*cobra.Command {
	return [][]*cobra.Command{kv.Commands(), node.Commands(), controller.Commands(), gateway.Commands(), member.Commands(),
		operate.Commands(), cli.Extensions()}
}
