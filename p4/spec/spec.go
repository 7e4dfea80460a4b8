// Package spec reads the programs that p4c compiled for DPDK's SWX pipeline, and finds their parts by the names that
// the control plane has for them.
package spec

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Program is what a compiled program declares.
type Program struct {
	Structs      map[string][]Field // by name
	Headers      map[string]string  // structs of headers, by header
	Metadata     string             // struct of the metadata
	Arguments    map[string]string  // structs of actions' arguments, by action; "" without arguments
	Tables       []Table
	Arrays       []Array
	Instructions int
}

// Field is a field of a struct.
type Field struct {
	Name string
	Bits int
}

// Table is a match-action table.
type Table struct {
	Name    string
	Keys    []Key
	Actions []Action
	Default string // the action of keys without an entry
	Const   bool   // the default cannot be changed
	Entries int
}

// Key is a field of a table's key, as h.HEADER.FIELD or m.FIELD.
type Key struct{ Field, Kind string }

// Action is an action of a table.
type Action struct {
	Name                   string
	TableOnly, DefaultOnly bool
}

// Array is an array of registers or counters. A program has no width of it, because SWX stores 64 bits.
type Array struct {
	Name string
	Size int
}

// Parse reads a .spec.
func Parse(text string) (*Program, error) {
	p := &Program{
		Structs: make(map[string][]Field), Headers: make(map[string]string), Arguments: make(map[string]string),
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		words := strings.Fields(lines[i])
		if len(words) == 0 {
			continue
		}
		var body [][]string
		if words[len(words)-1] == "{" {
			body, i = block(lines, i+1)
		}
		if err := p.declare(words, body); err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", i+1, strings.Join(words, " "), err)
		}
	}
	return p, nil
}

// block returns the lines up to the brace that closes the block, as words, and the index of that line.
func block(lines []string, first int) (body [][]string, last int) {
	depth := 1
	for last = first; last < len(lines); last++ {
		words := strings.Fields(lines[last])
		if len(words) == 0 {
			continue
		}
		switch words[len(words)-1] {
		case "{":
			depth++
		case "}":
			if depth--; depth == 0 {
				return body, last
			}
		}
		body = append(body, words)
	}
	return body, last
}

// shortest is the number of words of each declaration.
var shortest = map[string]int{"struct": 3, "header": 4, "metadata": 3, "action": 4, "regarray": 4, "table": 3}

var errShort = errors.New("words are missing")

func (p *Program) declare(words []string, body [][]string) (err error) {
	if len(words) < shortest[words[0]] {
		return errShort
	}
	switch words[0] {
	case "struct":
		p.Structs[words[1]], err = fields(body)
	case "header":
		p.Headers[words[1]] = words[3]
	case "metadata":
		p.Metadata = words[2]
	case "action":
		p.Arguments[words[1]] = ""
		if words[3] == "instanceof" {
			if len(words) < 5 {
				return errShort
			}
			p.Arguments[words[1]] = words[4]
		}
		p.Instructions += len(body)
	case "apply":
		p.Instructions += len(body)
	case "regarray":
		a := Array{Name: words[1]}
		a.Size, err = number(words[3])
		p.Arrays = append(p.Arrays, a)
	case "table":
		t := Table{Name: words[1]}
		err = t.read(body)
		p.Tables = append(p.Tables, t)
	}
	return err
}

func number(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	return int(n), err
}

var fieldType = regexp.MustCompile(`^(?:var)?bit<(\d+)>$`)

func fields(body [][]string) ([]Field, error) {
	var all []Field
	for _, words := range body {
		m := fieldType.FindStringSubmatch(words[0])
		if m == nil || len(words) != 2 {
			return nil, fmt.Errorf("%v is not a field", words)
		}
		bits, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		all = append(all, Field{words[1], bits})
	}
	return all, nil
}

func (t *Table) read(body [][]string) (err error) {
	part := ""
	for _, words := range body {
		last := words[len(words)-1]
		switch {
		case words[0] == "}":
			part = ""
		case last == "{":
			part = words[0]
		case part == "key":
			t.Keys = append(t.Keys, Key{words[0], last})
		case part == "actions":
			t.Actions = append(t.Actions, Action{words[0], last == "@tableonly", last == "@defaultonly"})
		case len(words) < 2:
			return errShort
		case words[0] == "default_action":
			t.Default, t.Const = words[1], last == "const"
		case words[0] == "size":
			t.Entries, err = number(words[1])
		}
	}
	return err
}

// BitsOf is the length of a struct.
func BitsOf(fields []Field) (sum int) {
	for _, f := range fields {
		sum += f.Bits
	}
	return sum
}

// KeyBits is the length of each field of a table's key.
func (p *Program) KeyBits(t *Table) ([]int, error) {
	var all []int
	for _, key := range t.Keys {
		owner, name := p.Metadata, strings.TrimPrefix(key.Field, "m.")
		if header, ok := strings.CutPrefix(key.Field, "h."); ok {
			instance, field, _ := strings.Cut(header, ".")
			owner, name = p.Headers[instance], field
		}
		at := len(all)
		for _, f := range p.Structs[owner] {
			if f.Name == name {
				all = append(all[:at], f.Bits)
			}
		}
		if len(all) == at {
			return nil, fmt.Errorf("table %s: the program has no field %s", t.Name, key.Field)
		}
	}
	return all, nil
}

// Parameters are the arguments of an action.
func (p *Program) Parameters(action string) []Field { return p.Structs[p.Arguments[action]] }

// Compiled returns the names that p4c may have given to a part of a control, the likelier first. The control plane's
// name is CONTROL.PART or CONTROL.INNER.PART.
func Compiled(name string) []string {
	_, inner, ok := strings.Cut(name, ".")
	if !ok {
		inner = name
	}
	inner = strings.ReplaceAll(inner, ".", "_")
	return []string{inner, inner + "_0"}
}

// Table finds a table by the control plane's name, nil if there is none.
func (p *Program) Table(name string) *Table {
	for _, compiled := range Compiled(name) {
		for i := range p.Tables {
			if p.Tables[i].Name == compiled {
				return &p.Tables[i]
			}
		}
	}
	return nil
}

// Array finds an array by the control plane's name, nil if there is none.
func (p *Program) Array(name string) *Array {
	for _, compiled := range Compiled(name) {
		for i := range p.Arrays {
			if p.Arrays[i].Name == compiled {
				return &p.Arrays[i]
			}
		}
	}
	return nil
}

// Action finds the name of an action of the table by the control plane's name, nil if there is none.
func (t *Table) Action(name string) *Action {
	for _, compiled := range Compiled(name) {
		for i := range t.Actions {
			if t.Actions[i].Name == compiled {
				return &t.Actions[i]
			}
		}
	}
	return nil
}
