package chainlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

// ring is the objects of a log.
type ring struct {
	chain      *client.Client
	near       objects.Nearby // nil: all reads use the network
	prefix     string
	id         uint64 // of the keyspace, in each object
	entries    int
	valueBytes int // the longest value of an object
}

// length is the number of the log's objects.
func (r *ring) length() uint64 { return uint64(r.entries) }

// payloadBytes is the most bytes of a batch in one entry.
func (r *ring) payloadBytes() int { return r.valueBytes - headerBytes }

func (r *ring) slot(index uint64) int { return int(index % r.length()) }

func (r *ring) entryKey(slot int) string { return fmt.Sprintf("%slog/%d", r.prefix, slot) }

// get reads the objects of n entries from index on: from the memory of a node on this machine those that it may answer,
// and the others through the network.
func (r *ring) get(ctx context.Context, index uint64, n int) []client.Outcome {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = r.entryKey(r.slot(index + uint64(i)))
	}
	if r.near == nil {
		return r.chain.GetMany(ctx, keys)
	}
	outcomes, answered := r.getNearby(keys)
	var others []string
	for i, key := range keys {
		if !answered[i] {
			others = append(others, key)
		}
	}
	if len(others) == 0 {
		return outcomes
	}
	asked := r.chain.GetMany(ctx, others)
	for i := range outcomes {
		if !answered[i] {
			outcomes[i], asked = asked[0], asked[1:]
		}
	}
	return outcomes
}

// getNearby reads keys from the memory of a node on this machine.
func (r *ring) getNearby(keys []string) (outcomes []client.Outcome, answered []bool) {
	outcomes, answered = make([]client.Outcome, len(keys)), make([]bool, len(keys))
	hashed := make([]wire.Key, len(keys))
	for i, key := range keys {
		var err error
		if hashed[i], err = wire.HashKey([]byte(key)); err != nil {
			return outcomes, answered // the chain's client will say what is wrong
		}
	}
	r.near.Read(hashed, func(i int, version uint64, epoch uint32, value []byte) {
		outcomes[i].Result = client.Result{Version: version, Epoch: epoch, Value: slices.Clone(value)}
		answered[i] = true
	})
	return outcomes, answered
}

// decode is an object of the ring as it was read.
func (r *ring) decode(slot int, o *client.Outcome) (record, error) {
	if errors.Is(o.Err, client.ErrNotFound) {
		return record{}, fmt.Errorf("%w (%s)", ErrLost, r.entryKey(slot))
	}
	if o.Err != nil {
		return record{}, o.Err
	}
	found, err := decode(o.Value)
	if err != nil || found.keyspace != r.id {
		return record{}, fmt.Errorf("%w (%s is of another keyspace)", ErrLost, r.entryKey(slot))
	}
	return found, nil
}

// retryPause is the pause before an operation that the chain did not answer is tried again.
const retryPause = 5 * time.Millisecond

// passing is nil, after a pause, for an error after which the operation can be tried again.
func (r *ring) passing(ctx context.Context, key string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, client.ErrNotFound):
		return fmt.Errorf("%w (%s)", ErrLost, key)
	case errors.Is(err, client.ErrTooLarge), errors.Is(err, client.ErrDenied), errors.Is(err, client.ErrClosed),
		errors.Is(err, client.ErrBadRequest), errors.Is(err, client.ErrFull):
		return err
	}
	if !retry.Sleep(ctx, retryPause) {
		return context.Cause(ctx)
	}
	return nil
}

// probe finds the longest value that the chain's nodes have cells for.
func (r *ring) probe(ctx context.Context, key string) error {
	const least = 8 * headerBytes
	for n := wire.MaxValueBytes; n >= least; n -= 8 {
		_, err := r.chain.Put(ctx, key, make([]byte, n))
		if errors.Is(err, client.ErrTooLarge) {
			continue
		}
		if err == nil {
			r.valueBytes = n
		}
		return err
	}
	return fmt.Errorf("the chain's cells are too short: a log needs values of %d bytes", least)
}
