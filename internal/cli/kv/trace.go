package kv

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli"
	"github.com/netcraq/netcraq/wire"
)

// station is a place on a request's path, drawn as a column.
type station [3]string // name, role, action

// drawTrace draws the path of a request and its answer, with lines of figures below. err is the operation's error.
func drawTrace(op wire.Op, r client.Result, where client.Location, err error, colour bool) string {
	way := readWay(r, where, err)
	if op.IsWrite() {
		way = writeWay(r, where, err)
	}
	figures := fmt.Sprintf("version %d, shard %d, epoch %d, chain %s", r.Version, r.Shard, r.Epoch,
		strings.Join(where.Chain, " > "))
	cost := fmt.Sprintf("%d hops, %s, %s", r.Hops, microseconds(r.Elapsed), cli.Plural(r.Attempts, "attempt"))
	return drawWay(way, colour) + "\n  " + cost + "\n  " + figures + "\n"
}

// readWay returns the path of a read: to the node asked, to the tail if that node cannot answer, and back.
func readWay(r client.Result, where client.Location, err error) []station {
	way := []station{{"client"}}
	if r.Asked != r.Node {
		way = append(way, station{r.Asked, roleOf(where.Chain, r.Asked), "dirty, or without a lease"})
	}
	return append(way, station{r.Node, roleOf(where.Chain, r.Node), stateOf(wire.OpRead, r, err)}, station{"client"})
}

// writeWay returns the path of a write: down the whole chain and back from the tail. If the tail cannot clone its ACK, the
// ACK goes up the chain and the head answers. A refused write ends at the head.
func writeWay(r client.Result, where client.Location, err error) []station {
	chain := where.Chain
	at := func(i int, what string) station { return station{chain[i], roleOf(chain, chain[i]), what} }
	way := []station{{"client"}}
	if r.Asked != chain[0] {
		way = append(way, station{r.Asked, roleOf(chain, r.Asked), "passed on to the head"})
	}
	if err != nil {
		return append(way, at(0, "refused"), station{"client"})
	}
	for i := range len(chain) - 1 {
		way = append(way, at(i, [...]string{"ordered", "applied"}[min(i, 1)]))
	}
	way = append(way, at(len(chain)-1, "committed"))
	if r.Node == chain[0] {
		for i := len(chain) - 2; i >= 0; i-- {
			way = append(way, at(i, "acknowledged"))
		}
	}
	return append(way, station{"client"})
}

// roleOf names a node's role in its chain.
func roleOf(chain []string, node string) string {
	switch i := slices.Index(chain, node); {
	case len(chain) == 1:
		return "head and tail"
	case i == 0:
		return "head"
	case i == len(chain)-1:
		return "tail"
	}
	return "replica"
}

// stateOf describes the state from which the answer was made.
func stateOf(op wire.Op, r client.Result, err error) string {
	switch {
	case op.IsWrite() && err != nil:
		return "refused"
	case op.IsWrite():
		return "committed"
	case r.Dirty:
		return "dirty copy"
	case err != nil && r.Version == 0:
		return "never written"
	case err != nil:
		return "deleted"
	case r.Asked != r.Node:
		return "committed copy"
	}
	return "clean copy"
}

// drawWay puts the stations side by side with arrows between their names.
func drawWay(way []station, colour bool) string {
	paint := func(code, text string) string {
		if !colour || code == "" || strings.TrimSpace(text) == "" {
			return text
		}
		return code + text + cli.Plain
	}
	var lines [3]strings.Builder
	for i, s := range way {
		width := 0
		for _, text := range s {
			width = max(width, utf8.RuneCountInString(text))
		}
		for row, text := range s {
			if i == len(way)-1 && text == "" {
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
