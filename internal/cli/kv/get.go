package kv

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/wire"
)

func newGetCommand() *cobra.Command {
	var (
		flags   kvFlags
		node    string
		relaxed bool
		bound   time.Duration
		raw     bool
	)
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Read a key",
		Long: `Read a key. The read is linearizable whichever node answers it, unless --any or --bounded relax it.

A value that is not printable text is shown in quotes or in hexadecimal; --raw writes its bytes unchanged.` + kvHelp,
		Example: "  netcraq get greeting\n  netcraq get greeting --node n2 --trace\n  netcraq get image --raw > image.png",
		Args:    cli.Arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bounded := cmd.Flags().Changed("bounded")
			if relaxed && bounded {
				return cli.UsageError(errors.New("--any and --bounded exclude each other"))
			}
			if raw && (flags.json || flags.trace) {
				return cli.UsageError(errors.New("--raw writes the value only: it excludes --json and --trace"))
			}
			var options []client.ReadOption
			if node != "" {
				options = append(options, client.From(client.Named(node)))
			}
			if relaxed {
				options = append(options, client.Any())
			}
			if bounded {
				options = append(options, client.Bounded(bound))
			}
			run := kvRun{flags: &flags, op: wire.OpRead, key: args[0], raw: raw}
			run.do = func(ctx context.Context, c *client.Client) (client.Result, error) {
				return c.Get(ctx, args[0], options...)
			}
			return run.run(cmd)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&node, "node", "", "read from the node of this `name` (default: the node that answers fastest)")
	cmd.Flags().BoolVar(&relaxed, "any", false, "accept the newest version at the node, even if it is not committed")
	cmd.Flags().DurationVar(&bound, "bounded", 0, "as --any, but only from a node whose lease expired less than this `time` ago")
	cmd.Flags().BoolVar(&raw, "raw", false, "write the value's bytes and nothing else")
	return cmd
}
