package admin

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// Colours of terminals.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

// table aligns cells. Colours in cells take no room.
type table struct {
	right []bool
	rows  [][]string
}

// newTable takes titles; those of columns of numbers begin with ">".
func newTable(titles ...string) *table {
	t := new(table)
	for i, title := range titles {
		title, right := strings.CutPrefix(title, ">")
		t.right, titles[i] = append(t.right, right), title
	}
	t.rows = append(t.rows, titles)
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// text lays the table out, in lines of at most width columns if that is not 0.
func (t *table) text(width int) string {
	widths := make([]int, len(t.right))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], visible(cell))
		}
	}
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-visible(cell))
			if t.right[i] {
				cell, padding = padding+cell, ""
			}
			line.WriteString(cell + padding)
			if i < len(row)-1 {
				line.WriteString("  ")
			}
		}
		b.WriteString(clip(strings.TrimRight(line.String(), " "), width) + "\n")
	}
	return b.String()
}

// visible counts the columns that a text takes.
func visible(text string) (columns int) {
	for i := skipColours(text, 0); i < len(text); i = skipColours(text, i) {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
		columns++
	}
	return columns
}

// skipColours returns where the next visible character begins.
func skipColours(text string, i int) int {
	for strings.HasPrefix(text[i:], "\x1b[") {
		end := strings.IndexByte(text[i:], 'm')
		if end < 0 {
			return len(text)
		}
		i += end + 1
	}
	return i
}

// clip cuts a line to so many columns; 0: it stays.
func clip(line string, width int) string {
	if width == 0 || visible(line) <= width {
		return line
	}
	columns, i := 0, 0
	for columns < width-1 {
		i = skipColours(line, i)
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
		columns++
	}
	cut := line[:i] + "…"
	if strings.Contains(cut, "\x1b[") {
		cut += plain
	}
	return cut
}

// Grouped writes a number with a comma between thousands.
func Grouped(n uint64) string { return humanize.Comma(int64(n)) }

// CountShards writes a number of shards.
func CountShards(n uint64) string {
	if n == 1 {
		return "1 shard"
	}
	return Grouped(n) + " shards"
}

func signed(n int) string {
	switch {
	case n > 0:
		return "+" + Grouped(uint64(n))
	case n < 0:
		return "-" + Grouped(uint64(-n))
	}
	return ""
}

func percent(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// Bytes writes a number of bytes in the unit that suits it.
func Bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	size := float64(n)
	for size >= 1024 && len(units) > 1 {
		size, units = size/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
