package clients

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/tools/suites/suite"
)

// page is the document with the results. Comments mark the beginning and the end of the table.
const document = "../../../docs/clients.md"

// checkPage compares the table of the document with results. With $WRITE it writes it. Clients that did not run keep
// their lines.
func checkPage(t *testing.T, rows map[string]row) {
	t.Helper()
	text := read(t, document)
	lines := between(t, text, "results")
	for _, c := range all {
		r := rows[c.name]
		if c.without != "" && len(r) == len(kinds)-1 {
			r[c.without] = suite.Results{}
		}
		if len(r) < len(kinds) {
			continue
		}
		line := c.line(r)
		begin, _, _ := strings.Cut(line, " | ")
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, begin+" ") }); i >= 0 {
			lines[i] = line
		} else {
			lines = append(lines, line)
		}
	}
	want := replace(t, text, "results", lines)
	switch {
	case want == text:
	case os.Getenv("WRITE") != "":
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/clients.md is not current: run make test-clients WRITE=1. Its table would be:\n%s",
			strings.Join(lines, "\n"))
	}
}

// line is a client's line of the results.
func (c *client) line(r row) string {
	whose := "this project's"
	if c.own {
		whose = "its own"
	}
	line := fmt.Sprintf("| %s %s | %s |", c.name, c.version, whose)
	for _, k := range kinds {
		if k == c.without {
			line += " not run |"
			continue
		}
		line += " " + counts(r[k]) + " |"
	}
	return line
}

func counts(r suite.Results) string {
	text := fmt.Sprintf("%d pass", r.Passes())
	if n := r.Skips(); n > 0 {
		text += fmt.Sprintf(", %d skip", n)
	}
	if n := len(r.Failed()); n > 0 {
		text += fmt.Sprintf(", %d fail", n)
	}
	return text
}

// markers are the comments around a table, its two lines of headings included.
func markers(name string) (begin, end string) {
	return "<!-- " + name + " -->\n", "<!-- end of " + name + " -->\n"
}

// between returns the lines of a table without its headings.
func between(t *testing.T, text, name string) []string {
	t.Helper()
	begin, end := markers(name)
	_, rest, found := strings.Cut(text, begin)
	table, _, closed := strings.Cut(rest, end)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if !found || !closed || len(lines) < 2 {
		t.Fatalf("%s has no table between %q and %q", document, begin, end)
	}
	return lines[2:]
}

// replace replaces the lines of a table below its headings.
func replace(t *testing.T, text, name string, lines []string) string {
	t.Helper()
	begin, end := markers(name)
	head, rest, _ := strings.Cut(text, begin)
	table, tail, _ := strings.Cut(rest, end)
	headings := strings.Split(strings.TrimSpace(table), "\n")[:2]
	return head + begin + strings.Join(append(headings, lines...), "\n") + "\n" + end + tail
}
