package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/netcraq/netcraq/eval/baseline"
)

// Line is something that happened, for people.
type Line struct {
	At   time.Duration
	Text string
}

func (w *world) note(text string) {
	if w.traced {
		w.trace = append(w.trace, Line{w.now, "-- " + text})
	}
}

// noteAt is a remark on a machine.
func (w *world) noteAt(e Endpoint, format string, args ...any) {
	if w.traced {
		w.trace = append(w.trace, Line{w.now, fmt.Sprintf("%-9v ", e) + fmt.Sprintf(format, args...)})
	}
}

// noteSend is a remark on a packet that leaves, with its fate.
func (w *world) noteSend(link Link, p baseline.Packet, faults []Fault) {
	if !w.traced {
		return
	}
	text := fmt.Sprintf("%-9s %s", fmt.Sprintf("%v -> %v", link.From, link.To), w.speaker.describe(p.Payload))
	for _, f := range faults {
		switch f.Kind {
		case Lose:
			text += "   LOST"
		case Delay:
			text += fmt.Sprintf("   LATE by %v", f.By)
		case Repeat:
			text += fmt.Sprintf("   TWICE, the copy %v later", f.By)
		}
	}
	w.trace = append(w.trace, Line{w.now, text})
}

// WriteTrace writes lines, the time in milliseconds before each.
func WriteTrace(out io.Writer, lines []Line) error {
	var text strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&text, "%9.1f ms  %s\n", float64(l.At)/float64(time.Millisecond), l.Text)
	}
	_, err := io.WriteString(out, text.String())
	return err
}
