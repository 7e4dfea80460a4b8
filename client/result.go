package client

import (
	"encoding/binary"
	"time"
)

// Result is the result of an operation, with its statistics. It is also filled in, as far as an answer told, when the
// operation's error is ErrNotFound or a CASFailedError.
type Result struct {
	// Value is the value read, or the counter that Add left, as 8 bytes. The caller owns it.
	Value []byte
	// Version is that of the value read or written; with ErrNotFound that of the deletion, or 0.
	Version uint64

	Node  string // the node that answered; of a bundle, its last node
	Asked string // the node that the answered attempt asked
	Shard uint16
	Epoch uint32 // the answering node's
	// Hops is the number of links from the client to the answering node and back, those in the chain included.
	Hops int
	// Dirty: a write of the key was under way at the answering node.
	Dirty bool
	// Tail: the tail answered.
	Tail bool
	// Attempts counts messages sent; Elapsed is from the call to the answer.
	Attempts int
	Elapsed  time.Duration
}

// Counter is the value as a counter, and whether it is one: counters have 8 bytes.
func (r *Result) Counter() (int64, bool) {
	if len(r.Value) != 8 {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(r.Value)), true
}

// Location is where a key lives.
type Location struct {
	Shard uint16
	Epoch uint32
	Chain []string // head first
}
