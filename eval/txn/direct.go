package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/netcraq/netcraq/client"
)

// direct locks with the store's own operations, one round trip each. Acquiring a lock creates its
// key by CAS with expected version 0. Releasing it deletes the key. The version of the created key
// is the fencing token: versions of a key grow even over deletions. The store orders every write
// once, so a late copy of a deletion cannot remove the next holder's lock. Unlike [client.Lock],
// these locks have no time to live: a client that dies keeps them.
type direct struct {
	client *client.Client
	owner  [8]byte
	ops    []client.Op
}

// lockName returns the name of an item's lock, the same for all systems with names.
func lockName(item Item) string { return "item-" + strconv.Itoa(int(item)) }

// Direct returns a client's session of direct locks. The session closes the client.
func Direct(c *client.Client, number int) Session {
	d := &direct{client: c}
	binary.BigEndian.PutUint64(d.owner[:], uint64(number)+1)
	return d
}

func (d *direct) Take(ctx context.Context, items []Item, locks []Lock) error {
	if len(items) == 1 {
		r, err := d.client.CAS(ctx, lockName(items[0]), 0, d.owner[:])
		locks[0], err = taken(items[0], r, err)
		return err
	}
	d.ops = d.ops[:0]
	for _, item := range items {
		d.ops = append(d.ops, client.CASOp(lockName(item), 0, d.owner[:]))
	}
	var failed error
	for i, outcome := range d.client.Do(ctx, d.ops) {
		var err error
		locks[i], err = taken(items[i], outcome.Result, outcome.Err)
		failed = errors.Join(failed, err)
	}
	return failed
}

func taken(item Item, r client.Result, err error) (Lock, error) {
	switch {
	case err == nil:
		return Lock{true, r.Version}, nil
	case errors.Is(err, client.ErrCASFailed):
		return Lock{}, nil
	}
	return Lock{}, notTaken(item, err)
}

func (d *direct) Give(ctx context.Context, items []Item, _ []Lock) error {
	if len(items) == 1 {
		_, err := d.client.Delete(ctx, lockName(items[0]))
		return given(items[0], err)
	}
	d.ops = d.ops[:0]
	for _, item := range items {
		d.ops = append(d.ops, client.DeleteOp(lockName(item)))
	}
	var failed error
	for i, outcome := range d.client.Do(ctx, d.ops) {
		failed = errors.Join(failed, given(items[i], outcome.Err))
	}
	return failed
}

func (d *direct) Close() error { return d.client.Close() }
