package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Spec is spec/wire.yaml.
type Spec struct {
	Limits   []Constant `yaml:"limits"`
	Layouts  Layouts    `yaml:"layouts"`
	Ops      []Op       `yaml:"ops"`
	Flags    []Flag     `yaml:"flags"`
	Statuses []Constant `yaml:"statuses"`
	Outcomes []Constant `yaml:"outcomes"`
}

// Constant is a named number. An outcome's number is its place in the list.
type Constant struct {
	Name  string `yaml:"name"`
	Value uint64 `yaml:"value"`
	Doc   string `yaml:"doc"`

	NotInP4 bool `yaml:"not_in_p4"` // P4 programs do without it
}

// Flag is one bit of the flags field and the op it may stand on.
type Flag struct {
	Constant `yaml:",inline"`
	On       string `yaml:"on"`
}

// Op is one kind of message.
type Op struct {
	Constant `yaml:",inline"`
	Layout   string `yaml:"layout"`
	From     string `yaml:"from"`
	ValueOf  string `yaml:"value_of"`
}

// Layout is one header; Offset is where it begins in a message.
type Layout struct {
	Name   string  `yaml:"-"`
	Doc    string  `yaml:"doc"`
	Apart  bool    `yaml:"apart"` // not behind the base header: offsets count from its own start
	Fields []Field `yaml:"fields"`
}

// Field is one field of a header. Offset counts from the start of the message.
type Field struct {
	Name   string `yaml:"name"`
	Bytes  int    `yaml:"bytes"`
	Doc    string `yaml:"doc"`
	Offset int    `yaml:"-"`
	Halves bool   `yaml:"p4_halves"` // P4 programs have it in two, for they want one half of it
}

// Layouts keeps the order of the file.
type Layouts []Layout

// UnmarshalYAML reads the mapping in order and places the fields: base at 0, every other layout behind it unless it stands apart.
func (l *Layouts) UnmarshalYAML(node *yaml.Node) error {
	base := 0
	for i := 0; i < len(node.Content); i += 2 {
		layout := Layout{Name: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&layout); err != nil {
			return err
		}
		offset := base
		if layout.Apart {
			offset = 0
		}
		for f := range layout.Fields {
			layout.Fields[f].Offset = offset
			offset += layout.Fields[f].Bytes
		}
		if layout.Name == "base" {
			base = offset
		}
		*l = append(*l, layout)
	}
	return nil
}

// End is the number of bytes of a message that ends with this header.
func (l Layout) End() int {
	last := l.Fields[len(l.Fields)-1]
	return last.Offset + last.Bytes
}

// apart says whether the layout of this name does not stand behind the base header.
func (s *Spec) apart(name string) bool {
	return slices.ContainsFunc(s.Layouts, func(l Layout) bool { return l.Name == name && l.Apart })
}

func (s *Spec) validate() error {
	for i := range s.Outcomes {
		s.Outcomes[i].Value = uint64(i)
	}
	if len(s.Layouts) == 0 || s.Layouts[0].Name != "base" {
		return errors.New("the first layout must be base")
	}
	known := map[string]bool{}
	for _, layout := range s.Layouts {
		known[layout.Name] = true
		for _, f := range layout.Fields {
			if f.Bytes != 1 && f.Bytes != 2 && f.Bytes != 4 && f.Bytes != 8 {
				return fmt.Errorf("%s.%s: %d bytes: P4 targets want 1, 2, 4 or 8", layout.Name, f.Name, f.Bytes)
			}
			if f.Offset%f.Bytes != 0 {
				return fmt.Errorf("%s.%s: offset %d is not aligned", layout.Name, f.Name, f.Offset)
			}
		}
	}
	for _, op := range s.Ops {
		if !known[op.Layout] {
			return fmt.Errorf("op %s: unknown layout %q", op.Name, op.Layout)
		}
	}
	return nil
}

// initialisms are the words that Go and people write in capitals.
var initialisms = map[string]string{"cas": "CAS", "ack": "Ack", "ttl": "TTL", "id": "ID"}

// camel turns cas_failed into CASFailed.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		if w, ok := initialisms[word]; ok {
			b.WriteString(w)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
