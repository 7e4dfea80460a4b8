package kv

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/wire"
)

func NewPutCommand() *cobra.Command {
	var flags kvFlags
	cmd := &cobra.Command{
		Use:     "put KEY VALUE",
		Short:   "Store a value",
		Long:    "Store a value; `-` reads it from standard input." + kvHelp,
		Example: "  netcraq put greeting hello\n  netcraq put config - < config.yaml",
		Args:    cli.Arguments(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			value, err := valueArgument(cmd, args[1])
			if err != nil {
				return err
			}
			run := kvRun{flags: &flags, op: wire.OpPut, key: args[0]}
			run.do = func(ctx context.Context, c *client.Client) (client.Result, error) { return c.Put(ctx, args[0], value) }
			return run.run(cmd)
		},
	}
	flags.add(cmd)
	return cmd
}

func newDeleteCommand() *cobra.Command {
	var flags kvFlags
	cmd := &cobra.Command{
		Use:   "delete KEY",
		Short: "Remove a key",
		Long:  "Remove a key, whether it exists or not." + kvHelp,
		Args:  cli.Arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run := kvRun{flags: &flags, op: wire.OpDelete, key: args[0]}
			run.do = func(ctx context.Context, c *client.Client) (client.Result, error) { return c.Delete(ctx, args[0]) }
			return run.run(cmd)
		},
	}
	flags.add(cmd)
	return cmd
}

func newCASCommand() *cobra.Command {
	var flags kvFlags
	var expect string
	cmd := &cobra.Command{
		Use:   "cas KEY --expect VERSION VALUE",
		Short: "Store a value if the key's version is the expected one",
		Long: "Store a value if the key's version is the expected one; version 0 stands for a key that does not exist.\n" +
			"`-` reads the value from standard input." + kvHelp,
		Example: "  netcraq cas greeting --expect 3 'hello, world'\n  netcraq cas lock --expect 0 mine",
		Args:    cli.Arguments(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("expect") {
				return cli.UsageError(errors.New(
					"--expect VERSION is missing: `netcraq get KEY --json` shows a key's version; 0 stands for a missing key"))
			}
			expected, err := strconv.ParseUint(expect, 10, 64)
			if err != nil {
				return cli.UsageError(fmt.Errorf("--expect %q is not a version, which is a whole number of at least 0", expect))
			}
			value, err := valueArgument(cmd, args[1])
			if err != nil {
				return err
			}
			run := kvRun{flags: &flags, op: wire.OpCAS, key: args[0]}
			run.do = func(ctx context.Context, c *client.Client) (client.Result, error) {
				return c.CAS(ctx, args[0], expected, value)
			}
			return run.run(cmd)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&expect, "expect", "", "the `version` expected")
	return cmd
}

func newAddCommand() *cobra.Command {
	var flags kvFlags
	cmd := &cobra.Command{
		Use:   "add KEY DELTA",
		Short: "Add to a counter and print it",
		Long: "Add a whole number, which may be negative, to a counter and print the sum. A key that does not exist counts as 0." +
			kvHelp,
		Example: "  netcraq add visits 1\n  netcraq add stock -5",
		// The flag parser would take a negative number for a flag.
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, help, err := parseNegative(cmd, args)
			if err != nil {
				return cli.UsageError(err)
			}
			if help {
				return cmd.Help()
			}
			delta, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil {
				return cli.UsageError(fmt.Errorf("%q is not a whole number of 64 bits", args[1]))
			}
			run := kvRun{flags: &flags, op: wire.OpAdd, key: args[0]}
			run.do = func(ctx context.Context, c *client.Client) (client.Result, error) { return c.Add(ctx, args[0], delta) }
			return run.run(cmd)
		},
	}
	flags.add(cmd)
	return cmd
}

var negative = regexp.MustCompile(`^-[0-9]+$`)

// parseNegative parses flags and returns the two arguments. The second one may be a negative number. help reports whether
// the user asked for help.
func parseNegative(cmd *cobra.Command, all []string) (args []string, help bool, err error) {
	var rest, numbers []string
	for _, argument := range all {
		if negative.MatchString(argument) {
			numbers = append(numbers, argument)
		} else {
			rest = append(rest, argument)
		}
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.Flags().Parse(rest); err != nil {
		return nil, false, err
	}
	if help, err = cmd.Flags().GetBool("help"); help || err != nil {
		return nil, help, err
	}
	args = append(cmd.Flags().Args(), numbers...)
	return args, false, cli.Arguments(2)(cmd, args)
}
