// Package bench implements the measurement commands.
package bench

import "github.com/spf13/cobra"

// Commands returns the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newBenchCommand()}
}
