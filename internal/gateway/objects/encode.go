package objects

import (
	"encoding/binary"
	"errors"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// An object is the value of a key of the chain:
//
//	format, flags and state, one byte each; then as uvarints: instance, revision, create revision, version, floor,
//
// counter, bits, and for each bit that is set how far its ticket is behind the counter; then etcd's value.
const (
	format      = 1
	flagJoining = 1
)

var errFormat = errors.New("the chain has an object of another format: it was written by a newer gateway")

// encode appends an object to b.
func encode(b []byte, o *core.Object) []byte {
	flags := byte(0)
	if o.Joining {
		flags = flagJoining
	}
	b = append(b, format, flags, byte(o.State))
	for _, n := range []uint64{
		uint64(o.Instance), uint64(o.Rev), uint64(o.Create), uint64(o.Version), uint64(o.Floor), uint64(o.Counter), o.Bits,
	} {
		b = binary.AppendUvarint(b, n)
	}
	for bit := range core.MaxGateways {
		if o.Bits&(1<<bit) != 0 {
			b = binary.AppendUvarint(b, uint64(o.Counter-o.Tickets[bit]))
		}
	}
	return append(b, o.Value...)
}

// decode reads an object.
func decode(b []byte) (*core.Object, error) {
	if len(b) < 3 || b[0] != format || b[1] > flagJoining || core.State(b[2]) > core.Packed {
		return nil, errFormat
	}
	o := &core.Object{Joining: b[1] == flagJoining, Entry: core.Entry{State: core.State(b[2])}}
	b = b[3:]
	whole := true
	next := func() uint64 {
		n, length := binary.Uvarint(b)
		if length <= 0 {
			whole = false
			return 0
		}
		b = b[length:]
		return n
	}
	o.Instance, o.Rev, o.Create, o.Version = int64(next()), int64(next()), int64(next()), int64(next())
	o.Floor, o.Counter, o.Bits = int64(next()), uint32(next()), next()
	for bit := range core.MaxGateways {
		if o.Bits&(1<<bit) != 0 {
			o.Tickets[bit] = o.Counter - uint32(next())
		}
	}
	if !whole {
		return nil, errFormat
	}
	o.Value = string(b)
	return o, nil
}
