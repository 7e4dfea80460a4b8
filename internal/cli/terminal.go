package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Escape sequences of terminals.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Dim    = "\x1b[2m"
	Plain  = "\x1b[0m"
)

// ClearLine erases a line of progress.
const ClearLine = "\r\033[K"

// IsTerminal reports whether f is a terminal.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Colours reports whether to use colour on w.
func Colours(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && IsTerminal(file)
}
