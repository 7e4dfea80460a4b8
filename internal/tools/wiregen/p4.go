package main

import (
	"bytes"
	"fmt"
	"strings"
)

func p4Constants(b *bytes.Buffer, group string, bits int, constants []Constant) {
	for _, c := range constants {
		if c.NotInP4 {
			continue
		}
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
	p4Constants(&b, "", 32, sizesOf(s))
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "// %s\nheader nq_%s_h {\n", l.Doc, l.Name)
		for _, f := range l.Fields {
			if f.Halves {
				for half := range 2 {
					fmt.Fprintf(&b, "    bit<%d> %s_%d; // %s: half %d\n", f.Bytes*4, f.Name, half, f.Doc, half+1)
				}
				continue
			}
			fmt.Fprintf(&b, "    bit<%d> %s; // %s\n", f.Bytes*8, f.Name, f.Doc)
		}
		b.WriteString("}\n\n")
	}
	b.WriteString("#endif\n")
	return []byte(strings.TrimLeft(b.String(), "\n")), nil
}

// sizesOf names the length of a message that ends with each header, and of the longest message.
func sizesOf(s *Spec) []Constant {
	var sizes []Constant
	var longest uint64
	for _, l := range s.Layouts {
		doc := "length of a message that ends with this header"
		if l.Apart {
			doc = "length of this header"
		} else {
			longest = max(longest, uint64(l.End()))
		}
		sizes = append(sizes, Constant{Name: l.Name + "_bytes", Value: uint64(l.End()), Doc: doc})
	}
	for _, c := range s.Limits {
		if c.Name == "max_value_bytes" {
			longest += c.Value
		}
	}
	return append(sizes, Constant{Name: "max_message_bytes", Value: longest, Doc: "length of the longest message"})
}
