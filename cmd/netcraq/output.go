package main

import (
	"encoding/json"
	"io"
	"text/tabwriter"

	"github.com/netcraq/netcraq/internal/cluster/admin"
)

// printJSON writes the one object that a command with --json prints.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// newTable aligns tab-separated cells to the left; the caller flushes it.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// grouped writes a number with a comma between thousands.
func grouped(n uint64) string { return admin.Grouped(n) }
