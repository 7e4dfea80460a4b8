package chainlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// Lead makes this reader the writer of a term. It calls apply for the batches that it reads at the log's end.
// Afterwards no writer of an earlier term gets a batch acknowledged.
func (l *Log) Lead(ctx context.Context, term uint64, apply func(batch []byte) error) error {
	for {
		batches, _, err := l.Read(ctx)
		for _, b := range batches {
			if err := apply(b); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if len(batches) > 0 {
			continue
		}
		fenced, err := l.fence(ctx, term)
		if err != nil {
			return err
		}
		if fenced {
			l.term = term
			return l.fencePointer(ctx, term)
		}
	}
}

// fence writes the first entry of a term at the log's end, if no other writer is faster. fenced: it was read before.
func (l *Log) fence(ctx context.Context, term uint64) (fenced bool, err error) {
	slot := l.slot(l.at.Next)
	key := l.entryKey(slot)
	found, err := l.chain.Get(ctx, key)
	if err != nil {
		return false, l.passing(ctx, key, err)
	}
	r, err := l.seen(slot, &client.Outcome{Result: found})
	if err != nil {
		return false, err
	}
	switch l.at.Fence(term, r.cell()) {
	case core.Written:
		return true, nil
	case core.Deposed:
		return false, fmt.Errorf("%w: the log has term %d, and this is %d", ErrDeposed, max(l.at.Term, r.term), term)
	case core.ReadOn:
		return false, nil
	}
	if err := l.roomForFence(ctx); err != nil {
		return false, err
	}
	own := record{keyspace: l.id, term: term, index: l.at.Next, flags: flagFence}
	if _, err := l.chain.CAS(ctx, key, found.Version, own.encode()); err != nil {
		return false, l.passing(ctx, key, err)
	}
	return false, nil
}

// roomForFence returns [ErrFull] if a fence would overwrite an entry that no snapshot contains.
func (l *Log) roomForFence(ctx context.Context) error {
	if core.Fits(l.at.Next, 1, l.retained.Load(), l.length()) {
		return nil
	}
	s, _, _, err := l.look(ctx)
	switch {
	case errors.Is(err, ErrLost):
		return err
	case err != nil:
		return l.passing(ctx, l.pointerKey(), err)
	case !core.Fits(l.at.Next, 1, s.Index, l.length()):
		return ErrFull
	}
	l.retained.Store(s.Index)
	return nil
}

// maxBatchBytes keeps the answers to a batch from waiting long.
const maxBatchBytes = 256 << 10

// MaxBatch is how many bytes a batch of several commands should have at most.
func (l *Log) MaxBatch() int { return min(maxBatchBytes, l.payloadBytes()*l.entries/8) }

// Append stores a batch. When it returns nil the chain has committed the batch. It retries until ctx ends. After
// an error other than ErrTooLarge and ErrFull the batch may be in the log, and the log is read only until the next Lead.
func (l *Log) Append(ctx context.Context, batch []byte) error {
	if l.term == 0 {
		return fmt.Errorf("%w, or this one failed", ErrDeposed)
	}
	flags := byte(0)
	if len(batch) > l.payloadBytes() {
		if packed, smaller := l.packer.pack(batch); smaller {
			batch, flags = packed, flagPacked
		}
	}
	most := l.payloadBytes()
	n := max((len(batch)+most-1)/most, 1)
	if n > l.entries/2 {
		return ErrTooLarge
	}
	if !core.Fits(l.at.Next, uint64(n), l.retained.Load(), l.length()-core.Fences(l.length())) {
		return ErrFull
	}
	values := make([][]byte, n)
	for i := range values {
		piece := batch[i*most : min((i+1)*most, len(batch))]
		r := record{
			keyspace: l.id, term: l.term, index: l.at.Next + uint64(i), flags: flags,
			left: uint32(n - 1 - i), payload: piece,
		}
		values[i] = r.encode()
	}
	if err := l.write(ctx, l.at.Next, values); err != nil {
		l.term = 0
		return err
	}
	l.at.Next += uint64(n)
	return nil
}
