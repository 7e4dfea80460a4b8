// Package guides runs the commands of the documents and compares their output with the output in the documents.
//
// A document is one shell session, from its first block of commands to its last. In a fenced block without a language, a
// line that begins with "$ " or "# " is a command. The lines up to the next command are its output, in which "..." stands
// for any lines. HTML comments in front of a block have the instructions that the page does not show:
//
//	<!-- guide: skip REASON -->    the block is not run
//	<!-- guide: run -->            every line is a command, without output
//	<!-- guide: background -->     every line is a command that runs until the end of the session
//	<!-- guide: keep -->           the block's command runs until "end" and prints the output in the block
//	<!-- guide: file NAME -->      the block is a file
//	<!-- guide: vary REGEXP -->    text that matches may be any other text that matches
//	<!-- guide: not REGEXP -->     commands that match are not run
//	<!-- guide: do COMMAND -->     a command that the reader need not see
//	<!-- guide: end -->            the command of "keep" gets Ctrl-C
//	<!-- guide: user -->           a new session, of a user without rights
package guides

import (
	"fmt"
	"regexp"
	"strings"
)

// Step is a directive or a block of a document, in their order.
type Step struct {
	Line     int
	Name     string // of the directive; empty: a block
	Argument string
	Language string
	Text     []string
}

var directive = regexp.MustCompile(`^<!-- guide: ([a-z]+)(?: (.*))? -->$`)

// Parse finds the steps of a document.
func Parse(text string) ([]Step, error) {
	var steps []Step
	var block *Step
	for number, line := range strings.Split(text, "\n") {
		switch fence, language, isFence := strings.Cut(line, "```"); {
		case block != nil && isFence && fence == "":
			steps = append(steps, *block)
			block = nil
		case block != nil:
			block.Text = append(block.Text, line)
		case isFence && fence == "":
			block = &Step{Line: number + 1, Language: language}
		default:
			if m := directive.FindStringSubmatch(line); m != nil {
				steps = append(steps, Step{Line: number + 1, Name: m[1], Argument: m[2]})
			} else if strings.HasPrefix(line, "<!-- guide:") {
				return nil, fmt.Errorf("line %d: %q is no directive", number+1, line)
			}
		}
	}
	if block != nil {
		return nil, fmt.Errorf("line %d: the block does not end", block.Line)
	}
	return steps, nil
}

// command is one command of a block with its expected output.
type command struct {
	line int
	text string
	want []string
}

// prompted reports whether a line is a command with its prompt.
func prompted(line string) bool {
	return strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "# ")
}

// commands reads a block.
func (s *Step) commands(all bool) []command {
	var found []command
	for i, line := range s.Text {
		switch {
		case all && strings.TrimSpace(line) != "":
			found = append(found, command{line: s.Line + 1 + i, text: line})
		case all:
		case prompted(line):
			found = append(found, command{line: s.Line + 1 + i, text: line[2:]})
		case len(found) > 0:
			last := &found[len(found)-1]
			last.want = append(last.want, line)
		}
	}
	return found
}

// Parts of outputs that are other ones each time.
var varying = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z?`), "<date>"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(e[-+]?\d+)? ?(ns|µs|ms|s)\b`), "<time>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<id>"},
	{regexp.MustCompile(`process \d+( on \S+)?`), "<process>"},
	{regexp.MustCompile(`\d+ attempts`), "<attempts>"},
	{regexp.MustCompile(`\s+`), " "},
}

// Clean removes the parts of an output that may differ between runs.
func Clean(lines []string, vary *regexp.Regexp) []string {
	var out []string
	for _, line := range lines {
		if strings.HasPrefix(line, "· ") || strings.HasPrefix(line, "! etcd took") { // progress; a machine under load
			continue
		}
		if vary != nil {
			line = vary.ReplaceAllString(line, "<any>")
		}
		for _, v := range varying {
			line = v.what.ReplaceAllString(line, v.as)
		}
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Matches reports whether an output is as wanted; both are clean.
func Matches(want, got []string) bool {
	switch {
	case len(want) == 0:
		return len(got) == 0
	case want[0] == "...":
		for skipped := range len(got) + 1 {
			if Matches(want[1:], got[skipped:]) {
				return true
			}
		}
		return false
	case len(got) == 0:
		return false
	}
	begin, any := strings.CutSuffix(want[0], "...")
	if got[0] != want[0] && !(any && strings.HasPrefix(got[0], begin)) {
		return false
	}
	return Matches(want[1:], got[1:])
}
