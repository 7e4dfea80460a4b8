package chainlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// writer writes entries of its term into a ring, one run after the other.
type writer struct {
	*ring
	term uint64
	// versions are those of the objects when this writer judged that its next entry replaces them; 0: not judged.
	versions []uint64
}

// seen is an object of the ring as it was read, whose version is noted.
func (w *writer) seen(slot int, o *client.Outcome) (record, error) {
	r, err := w.decode(slot, o)
	if err == nil {
		w.versions[slot] = o.Version
	}
	return r, err
}

// write replaces objects of the ring, from an index on, side by side. It retries until ctx ends.
func (w *writer) write(ctx context.Context, first uint64, values [][]byte) error {
	open := make([]uint64, len(values))
	for i := range open {
		open[i] = first + uint64(i)
	}
	for len(open) > 0 {
		var err error
		if open, err = w.unwritten(ctx, open); err != nil {
			return err
		}
		ops := make([]client.Op, len(open))
		for i, index := range open {
			slot := w.slot(index)
			ops[i] = client.CASOp(w.entryKey(slot), w.versions[slot], values[index-first])
		}
		var again []uint64
		for i, o := range w.chain.Do(ctx, ops) {
			slot := w.slot(open[i])
			if o.Err == nil {
				w.versions[slot] = o.Version
				continue
			}
			w.versions[slot] = 0 // another value is there, or perhaps this one
			again = append(again, open[i])
			if errors.Is(o.Err, client.ErrCASFailed) {
				continue
			}
			if err := w.passing(ctx, w.entryKey(slot), o.Err); err != nil {
				return err
			}
		}
		open = again
	}
	return nil
}

// unwritten judges the objects of entries, and returns the indexes of those that are not in the log.
func (w *writer) unwritten(ctx context.Context, indexes []uint64) (open []uint64, err error) {
	last := indexes[len(indexes)-1]
	unknown := w.unknown(nil, indexes...)
	if len(unknown) == 0 {
		return indexes, nil
	}
	written := make(map[uint64]bool)
	for len(unknown) > 0 {
		// The objects of later entries too, which the writer needs next.
		asked := unknown
		for next := last + 1; len(asked) < readAhead && next < indexes[0]+w.length(); next++ {
			asked = w.unknown(asked, next)
		}
		keys := make([]string, len(asked))
		for i, index := range asked {
			keys[i] = w.entryKey(w.slot(index))
		}
		for i, o := range w.chain.GetMany(ctx, keys) {
			index := asked[i]
			if index > last && o.Err != nil {
				continue
			}
			step, err := w.look(ctx, index, &o)
			if err != nil && index <= last {
				return nil, err
			}
			written[index] = step == core.Written
		}
		unknown = slices.DeleteFunc(unknown, func(index uint64) bool {
			return written[index] || w.versions[w.slot(index)] != 0
		})
	}
	for _, index := range indexes {
		if !written[index] {
			open = append(open, index)
		}
	}
	return open, nil
}

// unknown adds those of the indexes to a list whose objects were not judged.
func (w *writer) unknown(list []uint64, indexes ...uint64) []uint64 {
	for _, index := range indexes {
		if w.versions[w.slot(index)] == 0 {
			list = append(list, index)
		}
	}
	return list
}

// look judges an object as it was read. Without an error it may still be unknown.
func (w *writer) look(ctx context.Context, index uint64, o *client.Outcome) (core.Step, error) {
	slot := w.slot(index)
	if o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) {
		return core.ReadOn, w.passing(ctx, w.entryKey(slot), o.Err)
	}
	r, err := w.decode(slot, o)
	if err != nil {
		return core.ReadOn, err
	}
	step := core.Judge(w.term, index, r.cell())
	switch step {
	case core.WriteCell:
		w.versions[slot] = o.Version
	case core.Deposed:
		return step, fmt.Errorf("%w: entry %d has term %d", ErrDeposed, index, r.term)
	default:
	}
	return step, nil
}
