package cli

import (
	"encoding/json"
	"io"
	"text/tabwriter"

	"github.com/netcraq/netcraq/internal/cluster/admin"
)

// PrintJSON writes the one object that a command with --json prints.
func PrintJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// NewTable aligns tab-separated cells to the left; the caller flushes it.
func NewTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Grouped writes a number with a comma between thousands.
func Grouped(n uint64) string { return admin.Grouped(n) }
