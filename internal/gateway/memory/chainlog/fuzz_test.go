package chainlog

import (
	"bytes"
	"testing"
)

// FuzzRecord: the value of an object is a record, which has the same encoding, or an error.
func FuzzRecord(f *testing.F) {
	r := record{keyspace: 1, term: 2, index: 3, flags: flagPacked, left: 4, payload: []byte("x")}
	f.Add(r.encode())
	f.Add((&record{keyspace: 1, term: 2, index: 3, flags: flagSeal}).encode())
	f.Add(new(record).encode()[1:])
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := decode(value)
		if err == nil && !bytes.Equal(r.encode(), value) {
			t.Fatalf("%x is %+v, which is encoded as %x", value, r, r.encode())
		}
		if err != nil && len(value) >= headerBytes && value[0] == formatRecord {
			t.Fatal(err)
		}
	})
}

// FuzzPacked: a batch is what it was after it has been packed. Other bytes are unpacked or not.
func FuzzPacked(f *testing.F) {
	var p packer
	f.Add([]byte("a batch"))
	f.Add(bytes.Repeat([]byte("a batch"), 1000))
	f.Fuzz(func(t *testing.T, batch []byte) {
		_, _ = unpack(batch) // it says what is wrong
		packed, smaller := p.pack(batch)
		if !smaller {
			return
		}
		if got, err := unpack(packed); err != nil || !bytes.Equal(got, batch) {
			t.Fatalf("%x becomes %x, %v", batch, got, err)
		}
	})
}
