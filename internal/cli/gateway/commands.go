// Package gateway has the commands that serve clients of etcd.
package gateway

import (
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
)

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{cli.Configurable(newGatewayCommand()), cli.Configurable(newKeyspaceCommand())}
}
