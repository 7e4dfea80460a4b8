package driver

import (
	"io"

	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

// Machine is the state that the entries of the log make, with those who look at it. The driver calls it from one
// goroutine.
type Machine interface {
	// Restore replaces the state. state is what the write function of a Snapshot has written, and empty for entry 0.
	Restore(index uint64, state io.Reader) error
	// Apply applies the entries that follow, of which the first has an index, and shows the state.
	Apply(first uint64, entries []journal.Entry) error
	// Enter says that the entries that follow are of an era. Batches of earlier ones that are not applied yet may be lost.
	Enter(era uint64)
	// Snapshot returns the index of Whole, and writes the state of that entry, beside later calls of Apply.
	Snapshot() (index uint64, write func(io.Writer) error, err error)
	// Whole is the last entry that was applied with all of its batch: [Batches.Whole]. Entries behind it are kept in memory.
	Whole() uint64
}

// A payload begins with what it is of its batch.
const (
	pieceFirst = 1 << iota
	pieceLast
)

// Split makes the payloads of a batch, of a number of bytes at most.
func Split(batch []byte, most int) (payloads [][]byte) {
	flags := byte(pieceFirst)
	for {
		n := min(len(batch), most-1)
		if n == len(batch) {
			flags |= pieceLast
		}
		payloads = append(payloads, append([]byte{flags}, batch[:n]...))
		if batch, flags = batch[n:], 0; len(batch) == 0 {
			return payloads
		}
	}
}

// Batches puts batches together. A batch whose rest did not come, because its writer was deposed or an era has ended, is
// left out: what follows is a fence or the first piece of another one.
type Batches struct {
	whole   uint64 // the index of the last entry before an incomplete batch
	open    bool
	partial []byte
}

// Reset begins behind an entry that ends a batch.
func (b *Batches) Reset(index uint64) { *b = Batches{whole: index} }

// Take takes the next entry, and returns a batch if it is the last of one.
func (b *Batches) Take(index uint64, payload []byte) (batch []byte, complete bool) {
	if len(payload) == 0 { // a fence
		b.Reset(index)
		return nil, false
	}
	flags, piece := payload[0], payload[1:]
	switch {
	case flags&pieceFirst != 0:
		b.open, b.partial = true, nil
		b.whole = index - 1
	case !b.open:
		b.Reset(index)
		return nil, false
	}
	if flags&(pieceFirst|pieceLast) == pieceFirst|pieceLast {
		batch = piece
	} else {
		b.partial = append(b.partial, piece...)
		batch = b.partial
	}
	if flags&pieceLast == 0 {
		return nil, false
	}
	b.Reset(index)
	return batch, true
}

// Whole is the last entry behind which no batch is open.
func (b *Batches) Whole() uint64 { return b.whole }
