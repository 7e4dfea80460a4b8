package follow

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Await returns when the map is as wanted, or with the context's error when that ends before. Meanwhile it looks for a
// newer map elsewhere: the source may be behind the others, such as a controller that has just started.
func (f *Follower) Await(ctx context.Context, wanted func(*topology.Map) bool) error {
	reached := make(chan struct{}, 1)
	stop := f.Watch(func(m *topology.Map) {
		if wanted(m) {
			select {
			case reached <- struct{}{}:
			default:
			}
		}
	})
	defer stop()
	again := time.NewTicker(doubtEvery)
	defer again.Stop()
	for {
		select { // before the source is doubted
		case <-reached:
			return nil
		default:
		}
		f.Stale(f.version())
		select {
		case <-reached:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}
