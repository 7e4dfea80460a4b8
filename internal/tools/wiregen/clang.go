package main

import (
	"bytes"
	"fmt"
	"strings"
)

// cName is NQ_OP_READ for ("op", "read").
func cName(group, name string) string {
	return "NQ_" + strings.ToUpper(strings.TrimPrefix(group+"_"+name, "_"))
}

func cEnum(b *bytes.Buffer, group, doc string, constants []Constant) {
	fmt.Fprintf(b, "/* %s */\n", doc)
	for _, c := range constants {
		fmt.Fprintf(b, "#define %-28s %#-8x /* %s */\n", cName(group, c.Name), c.Value, c.Doc)
	}
	b.WriteString("\n")
}

// renderC writes the constants, one struct per header, and the assertions that hold the compiler to the specification.
func renderC(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b,
		"/* SPDX-License-Identifier: GPL-2.0 */\n/* %s */\n#ifndef NQ_WIRE_GEN_H\n#define NQ_WIRE_GEN_H\n\n#include <linux/types.h>\n\n",
		notice)
	cEnum(&b, "", "limits", s.Limits)
	cEnum(&b, "op", "ops", constantsOf(s.Ops, func(o Op) Constant { return o.Constant }))
	cEnum(&b, "flag", "bits of the flags field", constantsOf(s.Flags, func(f Flag) Constant { return f.Constant }))
	cEnum(&b, "status", "statuses of a REPLY", s.Statuses)
	cEnum(&b, "outcome", "outcomes, by which messages are counted", s.Outcomes)
	fmt.Fprintf(&b, "#define NQ_OUTCOME_COUNT %d\n\n", len(s.Outcomes))
	base := s.Layouts[0]
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "/* %s */\nstruct nq_%s {\n", l.Doc, l.Name)
		start := l.Fields[0].Offset
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "\t__be%d %s; /* %s */\n", f.Bytes*8, f.Name, f.Doc)
		}
		b.WriteString("};\n")
		fmt.Fprintf(&b, "_Static_assert(sizeof(struct nq_%s) == %d, \"size of %s\");\n", l.Name, l.End()-start, l.Name)
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "_Static_assert(__builtin_offsetof(struct nq_%s, %s) == %d, \"%s.%s\");\n", l.Name, f.Name,
				f.Offset-start, l.Name, f.Name)
		}
		fmt.Fprintf(&b, "#define NQ_%s_BYTES %d /* message of this layout, without a value */\n\n",
			strings.ToUpper(l.Name), l.End())
	}
	fmt.Fprintf(&b, "_Static_assert(NQ_BASE_BYTES == %d, \"a read request has at most 40 bytes of header\");\n\n#endif\n",
		base.End())
	return bytes.ReplaceAll(b.Bytes(), []byte("__be8 "), []byte("__u8 ")), nil
}
