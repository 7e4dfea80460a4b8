package follow

import (
	"context"

	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Await returns when the map is as wanted, or with the context's error when that ends before.
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
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
