package bench

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/netcraq/netcraq/eval/figure"
	"github.com/netcraq/netcraq/internal/cli"
)

// figureShow shows the progress of figures. On a terminal it overwrites one line. Elsewhere it
// prints a line per figure and a line at intervals.
type figureShow struct {
	w        io.Writer
	terminal bool
	figure   string
	said     time.Time
	line     string
}

// figureShowEvery is the interval of lines without a terminal.
const figureShowEvery = 15 * time.Second

func newFigureShow(w io.Writer) *figureShow {
	return &figureShow{w: w, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

func (s *figureShow) progress(p figure.Progress) {
	line := progressLine(p)
	if s.terminal {
		s.line = line
		if width, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && len(line) >= width {
			s.line = line[:max(width-1, 0)]
		}
		fmt.Fprint(s.w, cli.ClearLine, s.line)
		return
	}
	if p.Figure != s.figure || time.Since(s.said) >= figureShowEvery {
		s.figure, s.said = p.Figure, time.Now()
		fmt.Fprintln(s.w, line)
	}
}

// progressLine describes the progress of a figure.
func progressLine(p figure.Progress) string {
	left := "longer than planned"
	if p.Left >= time.Second {
		left = p.Left.Round(time.Second).String() + " left"
	}
	return fmt.Sprintf("%s  %d of %d  %s  %s", p.Figure, p.Done, p.Cells, left, p.Text)
}

// say prints a line that is not overwritten.
func (s *figureShow) say(text string) {
	if s.terminal {
		fmt.Fprint(s.w, cli.ClearLine)
	}
	fmt.Fprintln(s.w, text)
	if s.terminal {
		fmt.Fprint(s.w, s.line)
	}
}

func (s *figureShow) end() {
	if s.terminal {
		fmt.Fprint(s.w, cli.ClearLine)
	}
	s.line = ""
}
