// Package lab implements the verification commands: labs on one machine, simulations, conformance.
package lab

import "github.com/spf13/cobra"

// Commands returns the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newUpCommand(), newLabCommand(), newSimCommand(), newConformanceCommand()}
}
