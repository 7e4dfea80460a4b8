package chainlog

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/netcraq/netcraq/client"
)

// Make implements [driver.Log]. The error is ErrUsed if the log has entries: the keyspace's record is older than they
// are.
//
// A request that arrives late makes no object that the chain has lost meanwhile, because a shard that lost its state is
// in another epoch.
func (e *Eras) Make(ctx context.Context, era, _ uint64) error {
	r := e.ring(era)
	value := (&record{keyspace: e.id}).encode()
	for _, slots := range r.chunks() {
		for len(slots) > 0 {
			var err error
			if slots, err = r.makeObjects(ctx, slots, value); err != nil {
				return fmt.Errorf("the %d objects of the log of era %d: %w", r.entries, era, err)
			}
		}
	}
	return nil
}

// chunks returns all slots in order.
func (r *ring) chunks() [][]int {
	slots := make([]int, r.entries)
	for i := range slots {
		slots[i] = i
	}
	return slices.Collect(slices.Chunk(slots, readAhead))
}

// getSlots reads objects.
func (r *ring) getSlots(ctx context.Context, slots []int) []client.Outcome {
	keys := make([]string, len(slots))
	for i, slot := range slots {
		keys[i] = r.entryKey(slot)
	}
	return r.chain.GetMany(ctx, keys)
}

// makeObjects makes objects, and returns the slots of those that may not exist yet.
func (r *ring) makeObjects(ctx context.Context, slots []int, value []byte) (again []int, err error) {
	return r.change(ctx, slots, func(slot int, o *client.Outcome) (op client.Op, wanted bool, err error) {
		found, err := r.decode(slot, o)
		switch {
		case err != nil: // or it is of another keyspace that had this name
			return client.CASOp(r.entryKey(slot), o.Version, value).InEpoch(o.Epoch), true, nil
		case found.index > 0:
			return op, false, fmt.Errorf("%w: %s has entry %d", ErrUsed, r.entryKey(slot), found.index)
		}
		return op, false, nil
	})
}

// Remove implements [driver.Log]. The first objects are removed last: without them the log has none.
func (e *Eras) Remove(ctx context.Context, era uint64) error {
	r := e.ring(era)
	chunks := r.chunks()
	some := false
	_, err := r.change(ctx, chunks[0], func(slot int, o *client.Outcome) (op client.Op, wanted bool, err error) {
		some = some || o.Err == nil
		return op, false, nil
	})
	if err != nil || !some {
		return err
	}
	for _, slots := range slices.Backward(chunks) {
		for len(slots) > 0 {
			if slots, err = r.removeObjects(ctx, slots); err != nil {
				return fmt.Errorf("the log of era %d: %w", era, err)
			}
		}
	}
	return nil
}

// removeObjects removes objects, and returns the slots of those that may still exist.
func (r *ring) removeObjects(ctx context.Context, slots []int) (again []int, err error) {
	return r.change(ctx, slots, func(slot int, o *client.Outcome) (op client.Op, wanted bool, err error) {
		_, err = r.decode(slot, o)
		return client.DeleteOp(r.entryKey(slot)).InEpoch(o.Epoch), err == nil, nil
	})
}

// change reads objects and does with each what next says. It returns the slots of those whose outcome is not known.
func (r *ring) change(
	ctx context.Context, slots []int, next func(slot int, o *client.Outcome) (op client.Op, wanted bool, err error),
) (again []int, err error) {
	var ops []client.Op
	var changed []int
	var failed error
	for i, o := range r.getSlots(ctx, slots) {
		if o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) || o.Epoch == 0 {
			again = append(again, slots[i])
			if !errors.Is(o.Err, client.ErrNotFound) {
				failed = o.Err
			}
			continue
		}
		op, wanted, err := next(slots[i], &o)
		if err != nil {
			return nil, err
		}
		if wanted {
			ops, changed = append(ops, op), append(changed, slots[i])
		}
	}
	for i, o := range r.chain.Do(ctx, ops) {
		if o.Err != nil && !errors.Is(o.Err, client.ErrNotFound) {
			again, failed = append(again, changed[i]), o.Err
		}
	}
	if len(again) > 0 {
		return again, r.passing(ctx, r.entryKey(again[0]), failed)
	}
	return nil, nil
}
