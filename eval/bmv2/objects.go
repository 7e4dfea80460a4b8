package bmv2

import (
	"context"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"
)

// oneContext is BMv2's number for the program's tables and registers.
const oneContext = 0

// readOneByOne is the largest number of registers that are read with a call each. More come with the whole array.
const readOneByOne = 256

// read visits the values of an array of registers or counters. No frame is in the switch, so the halves of a register
// belong together.
func (e *engine) read(name string, first, count int, visit func(index int, value uint64)) error {
	a, err := find(e.program.arrays, "array", name)
	if err != nil {
		return err
	}
	if err := a.holds(first, count); err != nil {
		return err
	}
	values := make([]uint64, count)
	for _, part := range a.parts {
		err := e.readPart(part, first, count, func(index int, value uint64) {
			values[index-first] = values[index-first]<<a.Bits | value
		})
		if err != nil {
			return err
		}
	}
	for i, value := range values {
		visit(first+i, value)
	}
	return nil
}

func (a *array) holds(first, count int) error {
	if first < 0 || count < 0 || first > a.Size || count > a.Size-first {
		return fmt.Errorf("%s has %d places", a.Name, a.Size)
	}
	return nil
}

func (e *engine) readPart(name string, first, count int, visit func(index int, value uint64)) error {
	if count > readOneByOne {
		return e.sw.do(call{"bm_register_read_all", []argument{i32(oneContext), text(name)},
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
		calls = append(calls, call{"bm_register_read", []argument{i32(oneContext), text(name), i32(int32(i))},
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
	a, err := find(e.program.arrays, "array", name)
	if err != nil {
		return err
	}
	if err := a.holds(first, len(values)); err != nil {
		return err
	}
	calls := make([]call, 0, len(values)*len(a.parts))
	for i, v := range values {
		for k := len(a.parts) - 1; k >= 0; k-- {
			part := v
			if len(a.parts) > 1 {
				part = v & (1<<a.Bits - 1)
			}
			calls = append(calls, call{"bm_register_write", []argument{
				i32(oneContext), text(a.parts[k]), i32(int32(first + i)), i64(int64(part)),
			}, nil})
			v >>= a.Bits
		}
	}
	return e.sw.do(calls...)
}
