package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// program is what a compiled program declares.
type program struct {
	structs      map[string][]field // by name
	headers      map[string]string  // structs of headers, by header
	metadata     string             // struct of the metadata
	arguments    map[string]string  // structs of actions' arguments, by action; "" without arguments
	tables       []table
	arrays       []array
	instructions int
}

type field struct {
	name string
	bits int
}

// table is an exact-match table.
type table struct {
	name    string
	keys    []string // fields, as h.HEADER.FIELD or m.FIELD
	actions []string
	entries int
}

// array is an array of registers or counters. A .spec has no width, because SWX stores 64 bits; see [widths].
type array struct {
	name string
	size int
}

// parse reads a .spec.
func parse(spec string) (*program, error) {
	p := &program{
		structs: make(map[string][]field), headers: make(map[string]string), arguments: make(map[string]string),
	}
	lines := strings.Split(spec, "\n")
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

func (p *program) declare(words []string, body [][]string) (err error) {
	switch words[0] {
	case "struct":
		p.structs[words[1]], err = fields(body)
	case "header":
		p.headers[words[1]] = words[3]
	case "metadata":
		p.metadata = words[2]
	case "action":
		p.arguments[words[1]] = ""
		if words[3] == "instanceof" {
			p.arguments[words[1]] = words[4]
		}
		p.instructions += len(body)
	case "apply":
		p.instructions += len(body)
	case "regarray":
		a := array{name: words[1]}
		a.size, err = number(words[3])
		p.arrays = append(p.arrays, a)
	case "table":
		t := table{name: words[1]}
		err = t.read(body)
		p.tables = append(p.tables, t)
	}
	return err
}

func number(text string) (int, error) {
	n, err := strconv.ParseInt(text, 0, 64)
	return int(n), err
}

var fieldType = regexp.MustCompile(`^(?:var)?bit<(\d+)>$`)

func fields(body [][]string) ([]field, error) {
	var all []field
	for _, words := range body {
		m := fieldType.FindStringSubmatch(words[0])
		if m == nil || len(words) != 2 {
			return nil, fmt.Errorf("%v is not a field", words)
		}
		bits, err := strconv.Atoi(m[1])
		if err != nil {
			return nil, err
		}
		all = append(all, field{words[1], bits})
	}
	return all, nil
}

func (t *table) read(body [][]string) (err error) {
	part := ""
	for _, words := range body {
		switch {
		case words[0] == "}":
			part = ""
		case words[len(words)-1] == "{":
			part = words[0]
		case part == "key":
			t.keys = append(t.keys, words[0])
		case part == "actions":
			t.actions = append(t.actions, words[0])
		case words[0] == "size":
			t.entries, err = number(words[1])
		}
	}
	return err
}

func bitsOf(fields []field) (sum int) {
	for _, f := range fields {
		sum += f.bits
	}
	return sum
}

// keyBits is the length of a table's key.
func (p *program) keyBits(t *table) (int, error) {
	sum := 0
	for _, key := range t.keys {
		owner, name := p.metadata, strings.TrimPrefix(key, "m.")
		if header, ok := strings.CutPrefix(key, "h."); ok {
			instance, field, _ := strings.Cut(header, ".")
			owner, name = p.headers[instance], field
		}
		found := false
		for _, f := range p.structs[owner] {
			if f.name == name {
				sum, found = sum+f.bits, true
			}
		}
		if !found {
			return 0, fmt.Errorf("table %s: the program has no field %s", t.name, key)
		}
	}
	return sum, nil
}

// dataBits is the length of the arguments of the table's largest action.
func (p *program) dataBits(t *table) int {
	most := 0
	for _, action := range t.actions {
		most = max(most, bitsOf(p.structs[p.arguments[action]]))
	}
	return most
}

var declaration = regexp.MustCompile(`(?:Register|Counter)<bit<(\d+)>[^(]*\([^;]*\)\s*(\w+);`)

// widths returns the bits of each array that the sources declare, by its name there. p4c puts the names of controls in
// front of it.
func widths(dir string) (map[string]int, error) {
	files, err := sources(dir)
	if err != nil {
		return nil, err
	}
	all := make(map[string]int)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.File))
		if err != nil {
			return nil, err
		}
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			bits, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, err
			}
			if was, ok := all[m[2]]; ok && was != bits {
				return nil, fmt.Errorf("%s: %s has %d bits here, and %d in another program", f.File, m[2], bits, was)
			}
			all[m[2]] = bits
		}
	}
	return all, nil
}

// widthOf returns the declared bits of an array of the .spec.
func widthOf(a array, declared map[string]int) (int, error) {
	best, bits := "", 0
	for name, width := range declared {
		if (a.name == name+"_0" || strings.HasSuffix(a.name, "_"+name)) && len(name) > len(best) {
			best, bits = name, width
		}
	}
	if best == "" {
		return 0, fmt.Errorf("no source declares the array %s", a.name)
	}
	return bits, nil
}
