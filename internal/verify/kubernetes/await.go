package kubernetes

import (
	"context"
	"fmt"
	"time"
)

const retryPause = 200 * time.Millisecond

// await calls f until it succeeds or the context ends.
func await(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(retryPause):
		}
	}
}
