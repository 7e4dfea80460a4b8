package main

import (
	"bytes"
	"fmt"
	"strings"
)

func p4Constants(b *bytes.Buffer, group string, bits int, constants []Constant) {
	for _, c := range constants {
		fmt.Fprintf(b, "const bit<%d> %s = %#x; // %s\n", bits, cName(group, c.Name), c.Value, c.Doc)
	}
	b.WriteString("\n")
}

// renderP4 writes one P4_16 header per layout and the constants the parser and the controls match on.
func renderP4(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// SPDX-License-Identifier: Apache-2.0\n// %s\n#ifndef NQ_WIRE_P4\n#define NQ_WIRE_P4\n\n", notice)
	p4Constants(&b, "", 32, s.Limits)
	p4Constants(&b, "op", 8, constantsOf(s.Ops, func(o Op) Constant { return o.Constant }))
	p4Constants(&b, "flag", 8, constantsOf(s.Flags, func(f Flag) Constant { return f.Constant }))
	p4Constants(&b, "status", 16, s.Statuses)
	p4Constants(&b, "outcome", 8, s.Outcomes)
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "// %s\nheader nq_%s_h {\n", l.Doc, l.Name)
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "    %s %s; // %s\n", fmt.Sprintf("bit<%d>", f.Bytes*8), f.Name, f.Doc)
		}
		b.WriteString("}\n\n")
	}
	b.WriteString("#endif\n")
	return []byte(strings.TrimLeft(b.String(), "\n")), nil
}
