// Package product lists the commands of the program for production: its main function and the program that packs it
// share the list.
package product

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cli/controller"
	"github.com/netcraq/netcraq/internal/cli/gateway"
	"github.com/netcraq/netcraq/internal/cli/kv"
	"github.com/netcraq/netcraq/internal/cli/member"
	"github.com/netcraq/netcraq/internal/cli/node"
	"github.com/netcraq/netcraq/internal/cli/operate"
)

// Commands are the commands of the product. Help lists them by group.
func Commands() [][]*cobra.Command {
	return [][]*cobra.Command{
		grouped("Keys", kv.Commands()),
		grouped("Servers, their certificates and state",
			node.Commands(), controller.Commands(), gateway.Commands(), member.Commands()),
		grouped("Operation of a cluster", operate.Commands()),
		cli.Extensions(),
	}
}

func grouped(title string, commands ...[]*cobra.Command) []*cobra.Command {
	all := slices.Concat(commands...)
	for _, c := range all {
		c.GroupID = title
	}
	return all
}
