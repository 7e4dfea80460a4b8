// Package node has the commands that run a node and inspect nodes.
package node

import (
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
)

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{cli.Configurable(newNodeCommand()), cli.Configurable(newSwitchCommand()), newInspectCommand()}
}
