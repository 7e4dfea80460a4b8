package cli

import (
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cluster/admin"
)

// printed says that this process has printed its one object of JSON.
var printed atomic.Bool

// PrintJSON writes the one object that a command with --json prints.
func PrintJSON(w io.Writer, v any) error {
	printed.Store(true)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// errorObject is what a command with --json prints that fails before it has anything else to print.
type errorObject struct {
	Error string `json:"error"`
	Exit  int    `json:"exit_status"`
}

// printError prints a failed command's object, if it was to print one and has not.
func printError(c *cobra.Command, err error, status int) {
	if c == nil || printed.Load() || errors.Is(err, ErrSaid) {
		return
	}
	if flag := c.Flags().Lookup("json"); flag != nil && flag.Value.String() == "true" {
		_ = PrintJSON(c.OutOrStdout(), errorObject{err.Error(), status}) // the error is said on standard error too
	}
}

// NewTable aligns tab-separated cells to the left; the caller flushes it.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Grouped writes a number with a comma between thousands.
func Grouped(n uint64) string { return admin.Grouped(n) }
