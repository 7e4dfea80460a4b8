package main

import (
	"bytes"
	"fmt"
	"strings"
)

func markdownList(b *bytes.Buffer, title string, constants []Constant) {
	fmt.Fprintf(b, "## %s\n\n", title)
	for _, c := range constants {
		fmt.Fprintf(b, "- `%s` (%d): %s\n", c.Name, c.Value, c.Doc)
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

// parts lists what a message of an op has.
func parts(s *Spec, o Op) string {
	has := []string{"base"}
	if s.apart(o.Layout) {
		has = []string{o.Layout}
	} else if o.Layout != "base" {
		has = append(has, o.Layout)
	}
	if o.ValueOf != "" {
		has = append(has, "value")
	}
	return strings.Join(has, ", ")
}

// renderMarkdown writes the reference page of the format.
func renderMarkdown(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n\n# The wire format\n\n", notice)
	b.WriteString("One message in one UDP datagram, or several in a bundle; big-endian, every field aligned to its size. " +
		"What nodes do with\n" +
		"messages is in [protocol.md](protocol.md). Each field has its offset and its length in bytes.\n\n")
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "## Header `%s`\n\n%s. %s has %d bytes.\n\n",
			l.Name, strings.ToUpper(l.Doc[:1])+l.Doc[1:], extent(l), l.End())
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "- `%s` (%d, %d): %s\n", f.Name, f.Offset, f.Bytes, f.Doc)
		}
		b.WriteString("\n")
	}
	b.WriteString("## Ops\n\nEach op with its number, its headers, and who sends it.\n\n")
	for _, o := range s.Ops {
		fmt.Fprintf(&b, "- `%s` (%d; %s; %s): %s\n", o.Name, o.Value, parts(s, o), o.From, o.Doc)
	}
	b.WriteString("\n## Flags\n\n")
	for _, f := range s.Flags {
		fmt.Fprintf(&b, "- `%s` (%#02x, %s): %s\n", f.Name, f.Value, f.On, f.Doc)
	}
	b.WriteString("\n")
	markdownList(&b, "Statuses", s.Statuses)
	markdownList(&b, "Outcomes", s.Outcomes)
	markdownList(&b, "Limits", s.Limits)
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}
