package bench

import (
	"context"
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// fillPasses bounds how often all keys are written until none was lost. Each pass may give an object one version more.
const fillPasses = 5

// fill writes every key once over the wire, and again if an answer was lost. Answers go to the counted ports.
func fill(ctx context.Context, keys []wire.Key, valueBytes int, w way, counted ...*port) error {
	return fillGently(ctx, keys, valueBytes, sendBatch, w, counted...)
}

// fillGently does so with batches of a size: what a long chain's tail makes of a batch has to fit a link's queue.
func fillGently(ctx context.Context, keys []wire.Key, valueBytes, batch int, w way, counted ...*port) error {
	l, err := newLoad(&request{op: wire.OpPut, valueBytes: valueBytes, keys: keys}, w, counted...)
	if err != nil {
		return err
	}
	defer l.close()
	var pass Tally
	for range fillPasses {
		pass, err = l.sendEach(ctx, len(keys), batch)
		if err != nil {
			return err
		}
		if pass.OK == pass.Sent {
			return nil
		}
	}
	return fmt.Errorf("the node did not take %d keys: in the last of %d passes %v", len(keys), fillPasses, pass)
}

// sendEach sends n requests in portions of some batches, each answered before the next, so that a node on sockets can
// follow.
func (l *load) sendEach(ctx context.Context, n, batch int) (Tally, error) {
	portion := 4 * batch
	var sum Tally
	err := l.from.host.do(func() error {
		if err := pin(); err != nil {
			return err
		}
		before, err := l.tally()
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
