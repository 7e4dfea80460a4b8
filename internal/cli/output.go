package cli

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/netcraq/netcraq/internal/cluster/admin"
)

// printed is set once this process has printed its one JSON object.
var printed atomic.Bool

// PrintJSON writes the one JSON object of a command with --json.
func PrintJSON(w io.Writer, v any) error {
	printed.Store(true)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// errorObject is the output with --json of a command that fails before it has a result.
type errorObject struct {
	Error string `json:"error"`
	Exit  int    `json:"exit_status"`
}

// printError prints the object of a failed command, if --json is given and nothing was printed yet.
func printError(c *cobra.Command, err error, status int) {
	if c == nil || printed.Load() || errors.Is(err, ErrSaid) {
		return
	}
	if flag := c.Flags().Lookup("json"); flag != nil && flag.Value.String() == "true" {
		_ = PrintJSON(c.OutOrStdout(), errorObject{err.Error(), status}) // standard error has the error too
	}
}

// NewTable returns a writer that aligns tab-separated cells to the left. The caller flushes it.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Grouped formats a number with commas between thousands.
func Grouped(n uint64) string { return admin.Grouped(n) }

// Printable returns a key for a table: as it is, or quoted if a character cannot be shown or would move columns.
func Printable(key string) string {
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` || strings.Contains(key, " ") || key == "" {
		return quoted
	}
	return key
}
