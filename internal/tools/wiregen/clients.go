package main

import (
	"bytes"
	"fmt"
	"strings"
)

// pythonFormats are the letters of Python's struct for each size of a field.
var pythonFormats = map[int]string{1: "B", 2: "H", 4: "I", 8: "Q"}

func pythonConstants(b *bytes.Buffer, group string, constants []Constant) {
	for _, c := range constants {
		name := strings.ToUpper(strings.TrimPrefix(group+"_"+c.Name, "_"))
		fmt.Fprintf(b, "%s: Final = %#x\n\"\"\"%s\"\"\"\n", name, c.Value, c.Doc)
	}
	b.WriteString("\n")
}

// renderPython writes the constants of the Python client, and the layout of each header for module struct.
func renderPython(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\"\"\"Constants of the wire format: spec/wire.md explains them.\"\"\"\n\n", notice)
	b.WriteString("from struct import Struct\nfrom typing import Final\n\n")
	pythonConstants(&b, "", s.Limits)
	pythonConstants(&b, "op", constantsOf(s.Ops, func(o Op) Constant { return o.Constant }))
	pythonConstants(&b, "flag", constantsOf(s.Flags, func(f Flag) Constant { return f.Constant }))
	pythonConstants(&b, "status", s.Statuses)
	names := make([]string, len(s.Statuses))
	for i, c := range s.Statuses {
		names[i] = fmt.Sprintf("%d: %q", c.Value, c.Name)
	}
	fmt.Fprintf(&b, "STATUS_NAMES: Final = {%s}\n\n", strings.Join(names, ", "))
	pythonConstants(&b, "", sizesOf(s))
	for _, l := range s.Layouts {
		format, fields := ">", make([]string, 0, len(l.Fields))
		for _, f := range l.Fields {
			format += pythonFormats[f.Bytes]
			fields = append(fields, f.Name)
			fmt.Fprintf(&b, "%s_%s_AT: Final = %d\n", strings.ToUpper(l.Name), strings.ToUpper(f.Name), f.Offset)
		}
		fmt.Fprintf(&b, "%s: Final = Struct(%q)\n\"\"\"%s\"\"\"\n\n", strings.ToUpper(l.Name), format, strings.Join(fields, ", "))
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}

// renderCClient writes the constants of the C client, and where each field of the headers begins.
func renderCClient(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "/* SPDX-License-Identifier: Apache-2.0 */\n/* %s */\n#ifndef NETCRAQ_WIRE_H\n#define NETCRAQ_WIRE_H\n\n", notice)
	cEnum(&b, "", "limits", s.Limits)
	cEnum(&b, "op", "ops", constantsOf(s.Ops, func(o Op) Constant { return o.Constant }))
	cEnum(&b, "flag", "bits of the flags field", constantsOf(s.Flags, func(f Flag) Constant { return f.Constant }))
	cEnum(&b, "status", "statuses of a REPLY", s.Statuses)
	cEnum(&b, "", "lengths of messages", sizesOf(s))
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "/* %s */\n", l.Doc)
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "#define %-28s %-3d /* %d bytes: %s */\n", cName(l.Name, f.Name+"_at"), f.Offset, f.Bytes, f.Doc)
		}
		b.WriteString("\n")
	}
	b.WriteString("#endif\n")
	return b.Bytes(), nil
}
