// Package kv has the commands for keys and locks.
package kv

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/wire"
)

// kvFlags are the flags of all commands that work on keys.
type kvFlags struct {
	cluster cli.ClusterFlags
	timeout time.Duration
	json    bool
	trace   bool
}

func (f *kvFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.cluster.Add(flags)
	flags.DurationVar(&f.timeout, "timeout", client.DefaultTimeout, "give up after this time")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.BoolVar(&f.trace, "trace", false, "draw the path of the request through the chain")
}

// kvHelp ends the help of every command that works on keys.
const kvHelp = `

Exit status: 0 success, 1 error, 2 wrong usage, 3 no such key, 4 the version was not the expected one, 5 outcome unknown
(the write may or may not take effect: read the key).`

// Commands are the commands of this group.
func Commands() []*cobra.Command {
	return []*cobra.Command{newGetCommand(), NewPutCommand(), newDeleteCommand(), newCASCommand(),
		newAddCommand(), newLockCommand(), newWatchCommand()}
}

// kvRun is one operation on one key.
type kvRun struct {
	flags *kvFlags
	op    wire.Op
	key   string
	raw   bool // get: write the value unchanged
	do    func(context.Context, *client.Client) (client.Result, error)
}

// run connects, performs the operation and shows its result.
func (r *kvRun) run(cmd *cobra.Command) error {
	if r.flags.timeout <= 0 {
		return cli.UsageError(fmt.Errorf("--timeout must be positive, not %v", r.flags.timeout))
	}
	c, err := r.flags.cluster.Connect(cmd.Context(), client.Options{Timeout: r.flags.timeout})
	if err != nil {
		return err
	}
	defer c.Close()
	result, err := r.do(cmd.Context(), c.Client)
	where, locateErr := c.Locate(r.key)
	if err == nil && locateErr != nil {
		err = locateErr
	}
	if showErr := r.show(cmd.OutOrStdout(), result, where, err); showErr != nil {
		return showErr
	}
	return cli.WithStatus(r.key, err)
}

// valueArgument returns the value from the command line, or for "-" from standard input.
func valueArgument(cmd *cobra.Command, argument string) ([]byte, error) {
	if argument != "-" {
		return []byte(argument), nil
	}
	value, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), wire.MaxValueBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the value from standard input: %w", err)
	}
	if len(value) > wire.MaxValueBytes {
		return nil, fmt.Errorf("the value on standard input is longer than the %d bytes that one packet holds",
			wire.MaxValueBytes)
	}
	return value, nil
}
