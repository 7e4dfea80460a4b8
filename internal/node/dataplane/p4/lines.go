package p4

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/netcraq/netcraq/p4/spec"
)

// names finds the parts of a compiled program by the names that its P4Info has. It also takes those of the compiled
// program.
type names struct {
	program *spec.Program
	arrays  map[string]string
	tables  map[string]*spec.Table
}

func namesOf(program []byte) (names, error) {
	p, err := spec.Parse(string(program))
	return names{p, make(map[string]string), make(map[string]*spec.Table)}, err
}

func (n *names) table(name string) (*spec.Table, error) {
	t := n.tables[name]
	if t == nil {
		if t = n.program.Table(name); t == nil {
			return nil, fmt.Errorf("switch: the program has no table %s", name)
		}
		n.tables[name] = t
	}
	return t, nil
}

func (n *names) array(name string) (string, error) {
	compiled := n.arrays[name]
	if compiled == "" {
		a := n.program.Array(name)
		if a == nil {
			return "", fmt.Errorf("switch: the program has no array %s", name)
		}
		compiled = a.Name
		n.arrays[name] = compiled
	}
	return compiled, nil
}

// lines are what the engine is asked for a request. The answers to its accesses begin at first.
func (n *names) lines(r *Request) (lines []string, first int, err error) {
	lines = append(make([]string, 0, len(r.changes)+len(r.accesses)+3), "hold")
	for i := range r.changes {
		line, err := n.change(&r.changes[i])
		if err != nil {
			return nil, 0, err
		}
		lines = append(lines, line)
	}
	if len(r.changes) > 0 {
		lines = append(lines, "commit")
	}
	first = len(lines)
	for i := range r.accesses {
		line, err := n.access(&r.accesses[i])
		if err != nil {
			return nil, 0, err
		}
		lines = append(lines, line)
	}
	return append(lines, "release"), first, nil
}

var changeWords = map[ChangeKind]string{Put: "add ", Remove: "del ", SetDefault: "default "}

func (n *names) change(c *Change) (string, error) {
	t, err := n.table(c.Entry.Table)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(changeWords[c.Kind] + t.Name)
	if c.Kind != SetDefault {
		b.WriteString(" match")
		for _, m := range c.Entry.Match {
			fmt.Fprintf(&b, " %#x", m)
		}
	}
	if c.Kind == Remove {
		return b.String(), nil
	}
	a := t.Action(c.Entry.Action)
	if a == nil {
		return "", fmt.Errorf("switch: table %s has no action %s", c.Entry.Table, c.Entry.Action)
	}
	b.WriteString(" action " + a.Name)
	for _, arg := range c.Entry.Args {
		fmt.Fprintf(&b, " %s %#x", arg.Name, arg.Value)
	}
	return b.String(), nil
}

func (n *names) access(a *Access) (string, error) {
	name, err := n.array(a.Array)
	switch {
	case err != nil:
		return "", err
	case a.Visit == nil:
		var b strings.Builder
		fmt.Fprintf(&b, "write %s %d", name, a.First)
		for _, v := range a.Values {
			fmt.Fprintf(&b, " %x", v)
		}
		return b.String(), nil
	case a.Sparse:
		return fmt.Sprintf("scan %s %d %d", name, a.First, a.Count), nil
	}
	return fmt.Sprintf("read %s %d %d", name, a.First, a.Count), nil
}

// parse reads the engine's answer to a read.
func (a *Access) parse(answer []string) error {
	if len(answer) != 1 {
		return fmt.Errorf("switch: %d lines instead of values", len(answer))
	}
	for i, word := range strings.Fields(answer[0]) {
		index, digits := a.First+i, word
		if a.Sparse {
			number, rest, _ := strings.Cut(word, "=")
			n, err := strconv.ParseUint(number, 16, 32)
			if err != nil {
				return err
			}
			index, digits = int(n), rest
		}
		v, err := strconv.ParseUint(digits, 16, 64)
		if err != nil {
			return err
		}
		a.Visit(index, v)
	}
	return nil
}
