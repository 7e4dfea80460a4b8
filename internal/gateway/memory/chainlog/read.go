package chainlog

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// readAhead is how many entries are read at once while there are more.
const readAhead = 128

// manyBatches is the number of batches after which Read returns before the log's end.
const manyBatches = readAhead

// readBytes bounds the batches that Read returns, unless those of one run are longer.
const readBytes = 4 << 20

// Read returns the complete batches that follow, in order, up to the log's end or [manyBatches] of them. more: it ended
// before the log's end. The error is ErrBehind if the reader was too slow.
func (l *Log) Read(ctx context.Context) (batches [][]byte, more bool, err error) {
	bytes := 0
	for n, ahead := 1, 1; ; {
		found, err := l.readRun(ctx, n)
		if err != nil {
			return batches, false, err
		}
		for i := range found {
			if bytes >= readBytes {
				return batches, true, nil // the others are read again
			}
			batch, complete, err := l.accept(&found[i])
			if err != nil {
				return batches, false, err
			}
			if complete {
				batches, bytes = append(batches, batch), bytes+len(batch)
			}
		}
		if len(found) < n {
			return batches, false, nil // the log's end, at that moment
		}
		if len(batches) >= manyBatches {
			return batches, true, nil
		}
		// The rest of this batch and the first piece of the next one, or more if the log has many.
		n = min(max(int(found[n-1].left)+1, ahead), readAhead)
		ahead = 8 * n
	}
}

// readRun reads up to n entries, and returns those that count.
func (l *Log) readRun(ctx context.Context, n int) ([]record, error) {
	var run []record
	at := l.at
	for _, o := range l.get(ctx, l.at.Next, min(n, l.entries)) {
		r, err := l.seen(l.slot(at.Next), &o)
		if err != nil {
			return run, err
		}
		verdict := at.Take(r.cell())
		switch {
		case verdict == core.Behind && len(run) == 0:
			return nil, ErrBehind
		case verdict != core.Entry:
			return run, nil
		}
		run = append(run, r)
	}
	return run, nil
}

// accept takes the next entry. It returns a batch if this was its last piece.
func (l *Log) accept(r *record) (batch []byte, complete bool, err error) {
	l.at = core.Cursor{Next: r.index + 1, Term: r.term}
	if r.flags&flagFence != 0 {
		l.partial = nil
		return nil, false, nil
	}
	l.partial = append(l.partial, r.payload...)
	if r.left > 0 {
		return nil, false, nil
	}
	batch, l.partial = l.partial, nil
	if r.flags&flagPacked != 0 {
		if batch, err = unpack(batch); err != nil {
			return nil, false, fmt.Errorf("entry %d of the log: %w", r.index, err)
		}
	}
	return batch, true, nil
}
