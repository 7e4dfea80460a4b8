package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Main is the main function of a program with these commands. All programs call themselves by the product's name, because
// users call the others through it.
func Main(short string, commands ...[]*cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root, started := newRoot(short, slices.Concat(commands...))
	ran, err := root.ExecuteContextC(ctx)
	err = named(ctx, err)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, ErrSaid) {
		fmt.Fprintln(os.Stderr, ProductName+":", err)
	}
	printError(ran, err, ExitStatus(err, *started))
	endInterrupted(err)
	os.Exit(ExitStatus(err, *started))
}

// named returns the error of a command, and errInterrupted if it says no more than that a signal has ended it.
func named(ctx context.Context, err error) error {
	if ctx.Err() != nil && err != nil && strings.HasPrefix(err.Error(), context.Canceled.Error()) {
		return errInterrupted
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// newRoot returns the root command. It sets started once any command runs. The group of a command is its title.
func newRoot(short string, commands []*cobra.Command) (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:           ProductName,
		Short:         short,
		Version:       VersionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,

		PersistentPreRun: func(*cobra.Command, []string) { *started = true },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(misusedFlag)
	for _, c := range commands {
		if title := c.GroupID; title != "" && !root.ContainsGroup(title) {
			root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
		}
	}
	root.AddCommand(commands...)
	root.AddCommand(newVersionCommand())
	completeAll(root)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	refuseUnknown(root)
	return root, started
}

// refuseUnknown makes unknown subcommands errors, and has wrong arguments explained. Cobra prints the help of the command
// above an unknown one, and succeeds.
func refuseUnknown(c *cobra.Command) {
	for _, sub := range c.Commands() {
		refuseUnknown(sub)
	}
	switch {
	case c.HasParent() && c.HasSubCommands() && !c.Runnable():
		c.Args = cobra.NoArgs
		c.DisableFlagsInUseLine = true
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	case c.Name() == "help" && c.Run != nil:
		show := c.Run
		c.Run = nil
		c.RunE = func(c *cobra.Command, args []string) error {
			if _, _, err := c.Root().Find(args); err != nil {
				return UsageError(err)
			}
			show(c, args)
			return nil
		}
	}
	if c.Args != nil {
		c.Args = explained(c.Args)
	}
}

// ProductRoot returns the root command of the product's program.
func ProductRoot(commands ...[]*cobra.Command) *cobra.Command {
	root, _ := newRoot(productShort, slices.Concat(commands...))
	return root
}

// productShort says what the product is.
const productShort = "A strongly consistent key-value store that answers in the network's data plane"

// ProductMain is [Main] of the product's program.
func ProductMain(commands ...[]*cobra.Command) {
	isProduct = true
	Main(productShort, commands...)
}
