// Package bench has the commands for measurements.
package bench

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newBenchCommand(), newPlacementCommand()}
}
