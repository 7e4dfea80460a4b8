package chainlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
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
	own := record{keyspace: l.meta.ID, term: term, index: l.at.Next, flags: flagFence}
	if _, err := l.chain.CAS(ctx, key, found.Version, own.encode()); err != nil {
		return false, l.passing(ctx, key, err)
	}
	return false, nil
}

// roomForFence returns [ErrFull] if a fence would overwrite an entry that no snapshot contains.
func (l *Log) roomForFence(ctx context.Context) error {
	if core.Fits(l.at.Next, 1, l.retained.Load(), l.ring()) {
		return nil
	}
	s, _, _, err := l.look(ctx)
	switch {
	case errors.Is(err, ErrLost):
		return err
	case err != nil:
		return l.passing(ctx, l.pointerKey(), err)
	case !core.Fits(l.at.Next, 1, s.Index, l.ring()):
		return ErrFull
	}
	l.retained.Store(s.Index)
	return nil
}

// passing is nil, after a pause, for an error after which the operation can be tried again.
func (l *Log) passing(ctx context.Context, key string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, client.ErrNotFound):
		return fmt.Errorf("%w (%s)", ErrLost, key)
	case errors.Is(err, client.ErrTooLarge), errors.Is(err, client.ErrDenied), errors.Is(err, client.ErrClosed),
		errors.Is(err, client.ErrBadRequest):
		return err
	}
	if !retry.Sleep(ctx, retryPause) {
		return context.Cause(ctx)
	}
	return nil
}

// maxBatchBytes keeps the answers to a batch from waiting long.
const maxBatchBytes = 256 << 10

// MaxBatch is how many bytes a batch of several commands should have at most.
func (l *Log) MaxBatch() int { return min(maxBatchBytes, l.payloadBytes()*l.meta.Entries/8) }

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
	if n > l.meta.Entries/2 {
		return ErrTooLarge
	}
	if !core.Fits(l.at.Next, uint64(n), l.retained.Load(), l.ring()-core.Fences(l.ring())) {
		return ErrFull
	}
	values := make([][]byte, n)
	for i := range values {
		piece := batch[i*most : min((i+1)*most, len(batch))]
		r := record{
			keyspace: l.meta.ID, term: l.term, index: l.at.Next + uint64(i), flags: flags,
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

// write replaces objects of the ring, from an index on, side by side.
func (l *Log) write(ctx context.Context, first uint64, values [][]byte) error {
	open := make([]int, len(values))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 {
		ops := make([]client.Op, len(open))
		for j, i := range open {
			slot := l.slot(first + uint64(i))
			ops[j] = client.CASOp(l.entryKey(slot), l.versions[slot], values[i])
		}
		var again []int
		var failed error
		for j, o := range l.chain.Do(ctx, ops) {
			i := open[j]
			index := first + uint64(i)
			done, err := l.written(ctx, index, &o)
			failed = errors.Join(failed, err)
			if !done {
				again = append(again, i)
			}
		}
		if failed != nil {
			return failed
		}
		open = again
	}
	return nil
}

// written judges the write of an entry. If it is not done and there is no error, it must be tried again.
func (l *Log) written(ctx context.Context, index uint64, o *client.Outcome) (done bool, err error) {
	slot := l.slot(index)
	if o.Err == nil {
		l.versions[slot] = o.Version
		return true, nil
	}
	if !errors.Is(o.Err, client.ErrCASFailed) {
		if err := l.passing(ctx, l.entryKey(slot), o.Err); err != nil {
			return false, err
		}
	}
	// Another value is there, or perhaps ours.
	found, err := l.chain.Get(ctx, l.entryKey(slot))
	if err != nil {
		return false, l.passing(ctx, l.entryKey(slot), err)
	}
	r, err := l.seen(slot, &client.Outcome{Result: found})
	if err != nil {
		return false, err
	}
	step := core.Judge(l.term, index, r.cell())
	if step == core.Deposed {
		return false, fmt.Errorf("%w: entry %d has term %d", ErrDeposed, index, r.term)
	}
	return step == core.Written, nil
}
