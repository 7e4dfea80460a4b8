package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// fillPasses bounds the passes over all keys until no answer is lost. Each pass may raise an
// object's version by one.
const fillPasses = 5

// fill writes every key once over the wire, and repeats this if an answer is lost. The answers
// arrive at the counted ports.
func fill(ctx context.Context, keys []wire.Key, valueBytes int, w way, counted ...*port) error {
	return fillGently(ctx, keys, valueBytes, sendBatch, w, counted...)
}

// fillGently fills with the given batch size. The frames that a long chain's tail sends for a batch
// have to fit a link's queue.
func fillGently(ctx context.Context, keys []wire.Key, valueBytes, batch int, w way, counted ...*port) error {
	l, err := newLoad(&request{op: wire.OpPut, valueBytes: valueBytes, keys: keys}, w, counted...)
	if err != nil {
		return err
	}
	defer l.close()
	var pass Counters
	for range fillPasses {
		pass, err = l.sendEach(ctx, len(keys), batch)
		if err != nil {
			return err
		}
		if pass.OK == pass.Sent {
			return nil
		}
	}
	return fmt.Errorf("the node did not store %d keys in %d passes; the last pass: %v", len(keys), fillPasses, pass)
}

// sendEach sends n requests. It waits for the answers to a few batches before it sends more, so
// that a node on sockets keeps up.
func (l *load) sendEach(ctx context.Context, n, batch int) (Counters, error) {
	portion := 4 * batch
	var sum Counters
	err := l.from.host.do(func() error {
		if err := pin(); err != nil {
			return err
		}
		before, err := l.counters()
		if err != nil {
			return err
		}
		for sum.Sent < uint64(n) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.send(min(portion, n-int(sum.Sent)), batch); err != nil {
				return err
			}
			after, err := l.drain(before)
			if err != nil {
				return err
			}
			sum = after.minus(before)
		}
		return nil
	})
	return sum, err
}
