package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/client"
)

// Arguments requires exactly n arguments.
func Arguments(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return wrongNumber(cmd, args)
	}
}

// WithStatus gives a client's error its exit status.
func WithStatus(key string, err error) error {
	switch {
	case errors.Is(err, client.ErrNotFound):
		return ExitWith(ExitNotFound, fmt.Errorf("%q: not found", key))
	case errors.Is(err, client.ErrCASFailed):
		return ExitWith(ExitCASFailed, err)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return ExitWith(ExitOutcomeUnknown, err)
	}
	return err
}

// Plural formats a number with its noun.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
