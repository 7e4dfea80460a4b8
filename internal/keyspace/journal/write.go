package journal

import (
	"encoding/binary"
	"errors"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Entry is an entry of the keyspace's log.
type Entry struct {
	Term    uint64
	Payload []byte
}

// record is a write as the write-ahead log has it.
type record struct {
	kind     byte
	position core.Position // of a mark and a store; of an entry its term
	promised uint64        // of a vow and a store
	sum      uint64        // of a store's file
	payload  []byte
}

// Kinds of records.
const (
	kindEntry = iota + 1
	kindMark
	kindVow
	kindStore
)

// numbers of a record, in the order of the encoding.
func (r *record) numbers() []*uint64 {
	p := &r.position
	switch r.kind {
	case kindEntry:
		return []*uint64{&p.Term}
	case kindMark:
		return []*uint64{&p.Era, &p.Index, &p.Term}
	case kindVow:
		return []*uint64{&r.promised}
	case kindStore:
		return []*uint64{&p.Era, &p.Index, &p.Term, &r.promised, &r.sum}
	}
	return nil
}

func (r *record) encode() []byte {
	b := []byte{r.kind}
	for _, n := range r.numbers() {
		b = binary.AppendUvarint(b, *n)
	}
	return append(b, r.payload...)
}

var errFormat = errors.New("it has another format")

// decode keeps the bytes of b.
func decode(b []byte) (r record, err error) {
	if len(b) == 0 {
		return r, errFormat
	}
	r.kind, b = b[0], b[1:]
	numbers := r.numbers()
	for _, n := range numbers {
		size := 0
		if *n, size = binary.Uvarint(b); size <= 0 {
			return r, errFormat
		}
		b = b[size:]
	}
	if numbers == nil || r.kind != kindEntry && len(b) > 0 {
		return r, errFormat
	}
	r.payload = b
	return r, nil
}
