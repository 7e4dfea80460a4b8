package chainlog

import (
	"encoding/binary"
	"errors"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// record is the value of an object: an entry of the log, or a piece of a snapshot.
type record struct {
	keyspace uint64
	term     uint64 // of its writer
	index    uint64 // of the entry, 0: none yet; of the snapshot's last entry
	flags    byte
	left     uint32 // pieces of the batch behind this one
	payload  []byte
}

// Flags of records.
const (
	flagPacked     = 1 << iota // the batch is compressed
	flagFence                  // the first entry of a term: pieces of an incomplete batch before it do not count
	flagUnfinished             // of the description: the keyspace is being made
	flagSeal                   // the log of an era ends before this entry
)

const (
	formatRecord = 2
	headerBytes  = 1 + 8 + 8 + 8 + 1 + 4
)

// cell is the record as the decisions about the log see it.
func (r *record) cell() core.Cell {
	return core.Cell{Index: r.index, Term: r.term, Seal: r.flags&flagSeal != 0}
}

var errFormat = errors.New("the object has another format")

func (r *record) encode() []byte {
	b := make([]byte, 0, headerBytes+len(r.payload))
	b = append(b, formatRecord)
	b = binary.BigEndian.AppendUint64(b, r.keyspace)
	b = binary.BigEndian.AppendUint64(b, r.term)
	b = binary.BigEndian.AppendUint64(b, r.index)
	b = append(b, r.flags)
	b = binary.BigEndian.AppendUint32(b, r.left)
	return append(b, r.payload...)
}

// decode keeps the payload's bytes.
func decode(b []byte) (r record, err error) {
	if len(b) < headerBytes || b[0] != formatRecord {
		return r, errFormat
	}
	return record{
		keyspace: binary.BigEndian.Uint64(b[1:]),
		term:     binary.BigEndian.Uint64(b[9:]),
		index:    binary.BigEndian.Uint64(b[17:]),
		flags:    b[25],
		left:     binary.BigEndian.Uint32(b[26:]),
		payload:  b[headerBytes:],
	}, nil
}
