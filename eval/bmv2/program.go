package bmv2

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/netcraq/netcraq/p4/bmv2"
)

// program is what the engine needs of a compiled program: names, and lengths of fields.
type program struct {
	tables  map[string]*table
	actions map[string]*action
	arrays  map[string]*array // of registers
}

type table struct {
	name string
	bits []int // of its key's fields
}

type action struct {
	name   string
	fields []field // its arguments
}

type field struct {
	Name string `json:"name"`
	Bits int    `json:"bitwidth"`
}

type array struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	Bits int    `json:"bitwidth"`
	// parts are the arrays of the switch that hold its registers: itself, or the high and the low halves.
	parts []string
}

// compiled is the part of p4c's output that the engine reads.
type compiled struct {
	HeaderTypes []struct {
		Name   string  `json:"name"`
		Fields [][]any `json:"fields"`
	} `json:"header_types"`
	Headers []struct {
		Name string `json:"name"`
		Type string `json:"header_type"`
	} `json:"headers"`
	Actions []struct {
		Name string  `json:"name"`
		Args []field `json:"runtime_data"`
	} `json:"actions"`
	Pipelines []struct {
		Tables []struct {
			Name string `json:"name"`
			Key  []struct {
				Type   string   `json:"match_type"`
				Target []string `json:"target"`
			} `json:"key"`
		} `json:"tables"`
	} `json:"pipelines"`
	Registers []array `json:"register_arrays"`
}

// parse reads a program that p4c compiled for BMv2.
func parse(text []byte) (*program, error) {
	var c compiled
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	widths, err := c.widths()
	if err != nil {
		return nil, err
	}
	p := &program{tables: make(map[string]*table), actions: make(map[string]*action)}
	for _, a := range c.Actions {
		p.actions[short(a.Name)] = &action{a.Name, a.Args}
	}
	for _, pipeline := range c.Pipelines {
		for _, t := range pipeline.Tables {
			out := &table{name: t.Name}
			for _, k := range t.Key {
				width, ok := widths[strings.Join(k.Target, ".")]
				if !ok || k.Type != "exact" {
					return nil, fmt.Errorf("table %s: key %v of kind %s is not an exact field", t.Name, k.Target, k.Type)
				}
				out.bits = append(out.bits, width)
			}
			p.tables[short(t.Name)] = out
		}
	}
	p.arrays = join(c.Registers)
	return p, nil
}

// widths returns the bits of each field, by HEADER.FIELD. The length of a varbit is a string, and no key has one.
func (c *compiled) widths() (map[string]int, error) {
	types := make(map[string]map[string]int)
	for _, t := range c.HeaderTypes {
		types[t.Name] = make(map[string]int)
		for _, f := range t.Fields {
			if len(f) < 2 {
				return nil, fmt.Errorf("header type %s: a field without a length", t.Name)
			}
			name, named := f[0].(string)
			if bits, ok := f[1].(float64); ok && named {
				types[t.Name][name] = int(bits)
			}
		}
	}
	all := make(map[string]int)
	for _, h := range c.Headers {
		for name, bits := range types[h.Type] {
			all[h.Name+"."+name] = bits
		}
	}
	return all, nil
}

// join makes one array of two that hold the halves of its registers.
func join(parts []array) map[string]*array {
	all := make(map[string]*array)
	for _, a := range parts {
		a.parts = []string{a.Name}
		if name, ok := strings.CutSuffix(a.Name, bmv2.Halves[0]); ok {
			a.Name, a.parts = name, []string{a.Name, name + bmv2.Halves[1]}
		} else if strings.HasSuffix(a.Name, bmv2.Halves[1]) {
			continue
		}
		all[short(a.Name)] = &a
	}
	return all
}

// short turns the name of an object of the program into the name that p4c's DPDK backend makes of it, which the control
// plane uses: Node.state.objects is state_objects.
func short(name string) string {
	if _, inside, ok := strings.Cut(name, "."); ok {
		name = inside
	}
	return strings.ReplaceAll(name, ".", "_")
}

// numbered is the end of a name that the DPDK backend made unique.
var numbered = regexp.MustCompile(`_[0-9]+$`)

// find looks for an object by the name of the DPDK backend, which ends the names of actions and of some arrays with a
// number.
func find[T any](all map[string]*T, kind, name string) (*T, error) {
	if found, ok := all[name]; ok {
		return found, nil
	}
	if found, ok := all[numbered.ReplaceAllString(name, "")]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("the program has no %s %s", kind, name)
}
