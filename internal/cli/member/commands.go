// Package member has the command that runs an etcd server.
package member

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command { return []*cobra.Command{newEtcdCommand()} }
