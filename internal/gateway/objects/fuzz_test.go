package objects

import (
	"testing"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// FuzzObject: a value of the chain is an object, which is the same after it has been encoded, or an error.
func FuzzObject(f *testing.F) {
	o := core.Object{
		Instance: 1, Bits: 1 | 1<<63, Counter: 9, Floor: 3,
		Entry: core.Entry{State: core.Packed, Rev: 5, Create: 4, Version: 2, Value: "value"},
	}
	o.Tickets[0], o.Tickets[63] = 9, 2
	f.Add(encode(nil, &o))
	f.Add(encode(nil, &core.Object{Instance: 1, Joining: true}))
	f.Add([]byte{format, flagJoining, 0, 0x80})
	f.Fuzz(func(t *testing.T, value []byte) {
		o, err := decode(value)
		if err != nil {
			return
		}
		again, err := decode(encode(nil, o))
		if err != nil || *again != *o {
			t.Fatalf("%+v becomes %+v, %v", o, again, err)
		}
	})
}
