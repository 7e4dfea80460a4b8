// Package operate has the commands for operators of a managed cluster: status, plans, changes and backups.
package operate

import "github.com/spf13/cobra"

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return append(newOperateCommands(), newPlanCommand(), newTopCommand(), newStatusCommand(), newSettingsCommand(), newControllersCommand(),
		newBackupCommand(), newRestoreCommand(), newPlacementCommand(), newDoctorCommand(), newSupportCommand(),
		newDashboardCommand())
}
