package bmv2

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/apache/thrift/lib/go/thrift"
)

// entry is one line of a table.
type entry struct {
	table  *table
	key    [][]byte
	action *action // nil: the entry is to be removed
	args   [][]byte
	handle int32 // BMv2's number for it
}

// place identifies an entry: its table and key.
func (e *entry) place() string { return fmt.Sprintf("%s %x", e.table.name, e.key) }

// parseEntry reads TABLE match VALUE... [action NAME [ARGUMENT VALUE]...].
func (p *program) parseEntry(line string) (*entry, error) {
	words := strings.Fields(line)
	if len(words) < 2 || words[1] != "match" {
		return nil, errors.New("a table and an entry are wanted")
	}
	t, err := find(p.tables, "table", words[0])
	if err != nil {
		return nil, err
	}
	if words = words[2:]; len(words) < len(t.bits) {
		return nil, fmt.Errorf("a key of %s has %d fields", t.name, len(t.bits))
	}
	e := &entry{table: t}
	for i, bits := range t.bits {
		b, err := number(words[i], bits)
		if err != nil {
			return nil, err
		}
		e.key = append(e.key, b)
	}
	if words = words[len(t.bits):]; len(words) == 0 {
		return e, nil
	}
	if len(words) < 2 || words[0] != "action" {
		return nil, fmt.Errorf("a key of %s has %d fields", t.name, len(t.bits))
	}
	if e.action, err = find(p.actions, "action", words[1]); err != nil {
		return nil, err
	}
	return e, e.parseArgs(words[2:])
}

func (e *entry) parseArgs(words []string) error {
	given := make(map[string]string)
	for ; len(words) > 1; words = words[2:] {
		given[words[0]] = words[1]
	}
	if len(words) != 0 || len(given) != len(e.action.fields) {
		return fmt.Errorf("action %s has %d arguments", e.action.name, len(e.action.fields))
	}
	for _, f := range e.action.fields {
		value, ok := given[f.Name]
		if !ok {
			return fmt.Errorf("action %s: no argument %s", e.action.name, f.Name)
		}
		b, err := number(value, f.Bits)
		if err != nil {
			return err
		}
		e.args = append(e.args, b)
	}
	return nil
}

// number is a value in the bytes of a field, as BMv2 takes them.
func number(word string, bits int) ([]byte, error) {
	v, ok := new(big.Int).SetString(word, 0)
	if !ok || v.Sign() < 0 || v.BitLen() > bits {
		return nil, fmt.Errorf("%s is not a number of %d bits", word, bits)
	}
	return v.FillBytes(make([]byte, (bits+7)/8)), nil
}

// commit makes the changes that have been asked for, or none of them.
func (e *engine) commit() error {
	changes := e.changes
	e.changes = nil
	var undo []*entry
	for _, change := range changes {
		was := e.entries[change.place()]
		if err := e.change(change); err != nil {
			for i := len(undo) - 1; i >= 0; i-- {
				err = errors.Join(err, e.change(undo[i]))
			}
			return err
		}
		if was == nil {
			was = &entry{table: change.table, key: change.key}
		}
		undo = append(undo, was)
	}
	return nil
}

// change adds, replaces or removes one entry.
func (e *engine) change(to *entry) error {
	place := to.place()
	was := e.entries[place]
	switch {
	case to.action == nil && was == nil:
		return nil
	case to.action == nil:
		delete(e.entries, place)
		return e.sw.do(call{"bm_mt_delete_entry", []argument{i32(oneContext), text(to.table.name), i32(was.handle)}, nil})
	case was != nil:
		err := e.sw.do(call{"bm_mt_modify_entry", []argument{
			i32(oneContext), text(to.table.name), i32(was.handle), text(to.action.name), data(to.args),
		}, nil})
		if err == nil {
			to.handle = was.handle
			e.entries[place] = to
		}
		return err
	}
	err := e.sw.do(call{"bm_mt_add_entry", []argument{
		i32(oneContext), text(to.table.name), keyOf(to.key), text(to.action.name), data(to.args), structure(),
	}, func(ctx context.Context, p thrift.TProtocol) (err error) {
		to.handle, err = p.ReadI32(ctx)
		return err
	}})
	if err == nil {
		e.entries[place] = to
	}
	return err
}

// exact is BMv2's number for a field of a key that must be equal.
const exact = 0

func keyOf(key [][]byte) argument {
	var all []argument
	for _, k := range key {
		all = append(all, structure(i32(exact), structure(bytesOf(k))))
	}
	return list(thrift.STRUCT, all)
}

func data(args [][]byte) argument {
	var all []argument
	for _, a := range args {
		all = append(all, bytesOf(a))
	}
	return list(thrift.STRING, all)
}
