package kv

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/internal/cluster/trace"
	"github.com/netcraq/netcraq/wire"
)

// drawTrace draws the path of a request and its answer, with lines of figures below. err is the operation's error.
func drawTrace(op wire.Op, r client.Result, where client.Location, err error, colour bool) string {
	figures := fmt.Sprintf("version %d, shard %d, epoch %d, chain %s", r.Version, r.Shard, r.Epoch,
		strings.Join(where.Chain, " > "))
	cost := fmt.Sprintf("%d hops, %s, %s", r.Hops, microseconds(r.Elapsed), cli.Plural(r.Attempts, "attempt"))
	return drawPath(trace.Path(op, r, where, err), colour) + "\n  " + cost + "\n  " + figures + "\n"
}

// drawPath puts the stations side by side with arrows between their names.
func drawPath(path []trace.Station, colour bool) string {
	paint := func(code, text string) string {
		if !colour || code == "" || strings.TrimSpace(text) == "" {
			return text
		}
		return code + text + cli.Plain
	}
	var lines [3]strings.Builder
	for i, s := range path {
		width, rows := 0, [...]string{s.Name, s.Role, s.Action}
		for _, text := range rows {
			width = max(width, utf8.RuneCountInString(text))
		}
		for row, text := range rows {
			if i == len(path)-1 && text == "" {
				continue
			}
			arrow := "     "
			if row == 0 {
				arrow = " ──▶ "
			}
			if i == 0 {
				arrow = "  "
			}
			padding := strings.Repeat(" ", width-utf8.RuneCountInString(text))
			lines[row].WriteString(paint(cli.Dim, arrow) + paint(colourOf(row, text), text) + padding)
		}
	}
	var out strings.Builder
	for row := range lines {
		if line := strings.TrimRight(lines[row].String(), " "); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

func colourOf(row int, text string) string {
	switch {
	case row == 1:
		return cli.Dim
	case row == 2 && strings.HasPrefix(text, "dirty"):
		return cli.Yellow
	case row == 2:
		return cli.Green
	}
	return ""
}

func microseconds(d time.Duration) string {
	us := float64(d.Nanoseconds()) / float64(time.Microsecond)
	if us < 100 {
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.0f µs", us)
}
