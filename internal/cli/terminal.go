package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Codes of terminals.
const (
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	Dim    = "\x1b[2m"
	Plain  = "\x1b[0m"
)

// ClearLine takes back a line of progress.
const ClearLine = "\r\033[K"

// IsTerminal reports whether a person may look at f.
func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Colours reports whether to use colour on w.
func Colours(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && IsTerminal(file)
}
