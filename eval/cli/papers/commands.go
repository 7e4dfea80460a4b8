// Package papers implements the simulation and the conformance suite of the papers' protocols. netcraq-lab's commands of the
// same names pass these on if --protocol names one of them.
package papers

import "github.com/spf13/cobra"

// Commands returns the commands of this group.
func Commands() []*cobra.Command { return []*cobra.Command{newSimCommand(), newConformanceCommand()} }
