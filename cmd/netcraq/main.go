// Command netcraq is the one binary that users run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	started := false
	root := &cobra.Command{
		Use:           "netcraq",
		Short:         "A strongly consistent key-value store that answers in the network's data plane",
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRun: func(*cobra.Command, []string) { started = true },
	}
	root.AddCommand(newNodeCommand(), newInspectCommand(), newBenchCommand(), newLabCommand(), newUpCommand())
	root.AddCommand(newConformanceCommand(), newSimCommand(), newGatewayCommand(), newCertsCommand(), newControllerCommand())
	root.AddCommand(newKVCommands()...)
	root.AddCommand(newLockCommand(), newBackupCommand(), newRestoreCommand(), newPlanCommand(), newTopCommand(), newStatusCommand())
	root.AddCommand(newOperateCommands()...)
	if err := root.ExecuteContext(ctx); err != nil {
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(os.Stderr, "netcraq:", err)
		}
		os.Exit(exitStatus(err, started))
	}
}
