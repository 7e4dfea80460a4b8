// Package controller has the commands for controllers, and the certificates that they and others have.
package controller

import (
	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cli"
)

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{cli.Configurable(newControllerCommand()), newCertsCommand()}
}
