// Package gateway has the command that serves clients of etcd.
package gateway

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command { return []*cobra.Command{newGatewayCommand()} }
