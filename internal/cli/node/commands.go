// Package node has the commands for nodes: one that runs, and what it says of itself.
package node

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newNodeCommand(), newInspectCommand()}
}
