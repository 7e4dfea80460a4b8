package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// page has the table of what passes.
var page = filepath.Join("..", "..", "docs", "languages.md")

const tableBegin, tableEnd = "<!-- conformance -->\n", "<!-- end of conformance -->\n"

// results are the rows that passed with each language, and how many scenarios ran.
type results struct {
	failed map[string]bool // row and language
	ran    int
}

func (r *results) note(row, language string, passed bool) {
	r.ran++
	if !passed {
		r.failed[row+"/"+language] = true
	}
}

// table writes the table: a line for each row.
func (r *results) table() string {
	var b strings.Builder
	b.WriteString("| scenarios |")
	for _, l := range languages {
		b.WriteString(" " + l.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(languages)) + "\n")
	written := make(map[string]bool)
	for _, s := range scenarios {
		if written[s.row] {
			continue
		}
		written[s.row] = true
		fmt.Fprintf(&b, "| %s |", s.row)
		for _, l := range languages {
			if r.failed[s.row+"/"+l.name] {
				b.WriteString(" fail |")
			} else {
				b.WriteString(" pass |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// compare compares the table with the page, if all scenarios ran. With NETCRAQ_TABLE it is printed.
func (r *results) compare(t *testing.T) {
	t.Helper()
	if r.ran != len(languages)*len(scenarios) {
		return
	}
	table := r.table()
	if os.Getenv("NETCRAQ_TABLE") != "" {
		fmt.Print(table)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), tableBegin)
	if have, _, _ := strings.Cut(rest, tableEnd); have != table {
		t.Errorf("the table of %s is not the present one:\n%s", page, table)
	}
}
