package main

import (
	"bytes"
	"fmt"
	"strings"
)

// bytesPerRow is the width of a packet diagram: 8 bytes, 64 bits.
const bytesPerRow = 8

// charsPerByte is the width of one byte in a diagram.
const charsPerByte = 12

// diagram draws a header in rows of 8 bytes, with the offset of each row before it.
func diagram(l Layout) string {
	var b strings.Builder
	rule := "     +" + strings.Repeat(strings.Repeat("-", charsPerByte-1)+"+", bytesPerRow) + "\n"
	b.WriteString("      ")
	for i := range bytesPerRow {
		fmt.Fprintf(&b, "%-*d", charsPerByte, i)
	}
	b.WriteString("\n" + rule)
	column := 0
	for _, f := range l.Fields {
		if column == 0 {
			fmt.Fprintf(&b, "%4d |", f.Offset)
		}
		width := f.Bytes*charsPerByte - 1
		pad := width - len(f.Name)
		fmt.Fprintf(&b, "%s%s%s|", strings.Repeat(" ", pad/2), f.Name, strings.Repeat(" ", pad-pad/2))
		if column += f.Bytes; column == bytesPerRow {
			b.WriteString("\n" + rule)
			column = 0
		}
	}
	if column > 0 {
		b.WriteString("\n     +" + strings.Repeat(strings.Repeat("-", charsPerByte-1)+"+", column) + "\n")
	}
	return b.String()
}

func markdownTable(b *bytes.Buffer, title string, constants []Constant) {
	fmt.Fprintf(b, "## %s\n\n| name | value | meaning |\n|---|---|---|\n", title)
	for _, c := range constants {
		fmt.Fprintf(b, "| `%s` | %d | %s |\n", c.Name, c.Value, c.Doc)
	}
	b.WriteString("\n")
}

// extent names the part that the size of a layout covers.
func extent(l Layout) string {
	if l.Apart {
		return "It"
	}
	return "A message that ends here"
}

// renderMarkdown writes the reference page of the format.
func renderMarkdown(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n\n# The wire format\n\n", notice)
	b.WriteString("One message in one UDP datagram, or several in a bundle; big-endian, every field aligned to its size. " +
		"What nodes do with\n" +
		"messages is in [protocol.md](protocol.md).\n\n")
	for _, l := range s.Layouts {
		fmt.Fprintf(&b,
			"## Header `%s`\n\n%s. %s has %d bytes.\n\n```\n%s```\n\n| field | offset | bytes | meaning |\n|---|---|---|---|\n",
			l.Name, strings.ToUpper(l.Doc[:1])+l.Doc[1:], extent(l), l.End(), diagram(l))
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", f.Name, f.Offset, f.Bytes, f.Doc)
		}
		b.WriteString("\n")
	}
	b.WriteString("## Ops\n\n| name | value | headers | value follows | sent by | meaning |\n|---|---|---|---|---|---|\n")
	for _, o := range s.Ops {
		headers, follows := "base", "no"
		if s.apart(o.Layout) {
			headers = o.Layout
		} else if o.Layout != "base" {
			headers += " + " + o.Layout
		}
		if o.ValueOf != "" {
			follows = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s |\n", o.Name, o.Value, headers, follows, o.From, o.Doc)
	}
	b.WriteString("\n## Flags\n\n| name | bit | on | meaning |\n|---|---|---|---|\n")
	for _, f := range s.Flags {
		fmt.Fprintf(&b, "| `%s` | %#02x | %s | %s |\n", f.Name, f.Value, f.On, f.Doc)
	}
	b.WriteString("\n")
	markdownTable(&b, "Statuses", s.Statuses)
	markdownTable(&b, "Outcomes", s.Outcomes)
	markdownTable(&b, "Limits", s.Limits)
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}
