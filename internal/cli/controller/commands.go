// Package controller has the commands for controllers, and the certificates that they and others have.
package controller

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newControllerCommand(), newCertsCommand()}
}
