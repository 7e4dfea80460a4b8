package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/client"
)

// Parameters of the objects written before a trial.
const (
	fillPortion   = 10_000
	fillWindow    = 512
	fillTellEvery = 100_000
)

// fill writes objects with a value each, many at a time, and returns the time it took. It calls
// note, if set, with each result.
func (c *cluster) fill(ctx context.Context, objects int, value []byte, note func(string, client.Result)) (
	time.Duration, error) {
	kv, err := c.client(client.Options{Timeout: clientTimeout, Window: fillWindow})
	if err != nil {
		return 0, err
	}
	defer kv.Close()
	began := time.Now()
	for done := 0; done < objects; done += fillPortion {
		ops := make([]client.Op, min(fillPortion, objects-done))
		for i := range ops {
			ops[i] = client.PutOp(objectKey(done+i), value)
		}
		for i, outcome := range kv.Do(ctx, ops) {
			if outcome.Err != nil {
				return 0, fmt.Errorf("fill: %w", outcome.Err)
			}
			if note != nil {
				note(objectKey(done+i), outcome.Result)
			}
		}
		if (done+fillPortion)%fillTellEvery == 0 {
			c.setup.event("%d objects written", done+fillPortion)
		}
	}
	return time.Since(began), nil
}

// objectKey returns the key of an object that fill writes.
func objectKey(number int) string { return fmt.Sprintf("object-%d", number) }
