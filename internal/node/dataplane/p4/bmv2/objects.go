package bmv2

import (
	"context"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"
)

// oneContext is BMv2's number for the program's tables, registers and counters.
const oneContext = 0

// readOneByOne is the largest number of registers that are read with a call each. More come with the whole array.
const readOneByOne = 256

// read visits the values of an array of registers or counters.
func (e *engine) read(name string, first, count int, visit func(index int, value uint64)) error {
	if a, err := find(e.program.registers, "array", name); err == nil {
		return e.readRegisters(a, first, count, visit)
	}
	a, err := find(e.program.counters, "array", name)
	if err != nil {
		return err
	}
	if err := a.holds(first, count); err != nil {
		return err
	}
	calls := make([]call, 0, count)
	for i := first; i < first+count; i++ {
		calls = append(calls, call{"bm_counter_read", []argument{i32(oneContext), text(a.Name), i32(int32(i))},
			func(ctx context.Context, p thrift.TProtocol) error {
				return fields(ctx, p, func(id int16, _ thrift.TType) error {
					v, err := p.ReadI64(ctx)
					if id == 2 { // packets; 1 are bytes
						visit(i, uint64(v))
					}
					return err
				})
			}})
	}
	return e.sw.do(calls...)
}

func (a *array) holds(first, count int) error {
	if first < 0 || count < 0 || first > a.Size || count > a.Size-first {
		return fmt.Errorf("%s has %d places", a.Name, a.Size)
	}
	return nil
}

func (e *engine) readRegisters(a *array, first, count int, visit func(index int, value uint64)) error {
	if err := a.holds(first, count); err != nil {
		return err
	}
	if count > readOneByOne {
		return e.sw.do(call{"bm_register_read_all", []argument{i32(oneContext), text(a.Name)},
			func(ctx context.Context, p thrift.TProtocol) error {
				_, size, err := p.ReadListBegin(ctx)
				for i := 0; i < size && err == nil; i++ {
					var v int64
					if v, err = p.ReadI64(ctx); err == nil && i >= first && i < first+count {
						visit(i, uint64(v))
					}
				}
				if err != nil {
					return err
				}
				return p.ReadListEnd(ctx)
			}})
	}
	calls := make([]call, 0, count)
	for i := first; i < first+count; i++ {
		calls = append(calls, call{"bm_register_read", []argument{i32(oneContext), text(a.Name), i32(int32(i))},
			func(ctx context.Context, p thrift.TProtocol) error {
				v, err := p.ReadI64(ctx)
				visit(i, uint64(v))
				return err
			}})
	}
	return e.sw.do(calls...)
}

// write sets registers or counters from an index on.
func (e *engine) write(name string, first int, values []uint64) error {
	method, counts := "bm_register_write", false
	a, err := find(e.program.registers, "array", name)
	if err != nil {
		method, counts = "bm_counter_write", true
		if a, err = find(e.program.counters, "array", name); err != nil {
			return err
		}
	}
	if err := a.holds(first, len(values)); err != nil {
		return err
	}
	calls := make([]call, 0, len(values))
	for i, v := range values {
		value := i64(int64(v))
		if counts {
			value = structure(i64(0), i64(int64(v)))
		}
		calls = append(calls, call{method, []argument{i32(oneContext), text(a.Name), i32(int32(first + i)), value}, nil})
	}
	return e.sw.do(calls...)
}
