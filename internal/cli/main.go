package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// Main is the main function of a program with these commands. All programs are shown under the product's name, because its
// users call the others through it.
func Main(short string, commands ...[]*cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	started := false
	root := &cobra.Command{
		Use:           ProductName,
		Short:         short,
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRun: func(*cobra.Command, []string) { started = true },
	}
	root.AddCommand(slices.Concat(commands...)...)
	completeAll(root)
	ran, err := root.ExecuteContextC(ctx)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, ErrSaid) {
		fmt.Fprintln(os.Stderr, ProductName+":", err)
	}
	printError(ran, err, ExitStatus(err, started))
	os.Exit(ExitStatus(err, started))
}

// ProductMain is [Main] of the product's program.
func ProductMain(commands ...[]*cobra.Command) {
	isProduct = true
	Main("A strongly consistent key-value store that answers in the network's data plane", commands...)
}
