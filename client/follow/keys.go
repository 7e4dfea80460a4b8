package follow

import (
	"context"
	"math/rand/v2"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/keyring"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// Keys are the newest keys of a cluster that has tags or had some; nil: there are none, or none yet.
func (f *Follower) Keys() *wire.Keyring { return f.keys.Load() }

// followKeys keeps the keys from the first map on that needs some.
func (f *Follower) followKeys(m *topology.Map) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.keyed || m.Tags == wire.TagsOff {
		return
	}
	f.keyed = true
	f.running.Go(func() {
		keyring.Receive(f.ctx, f.someController, func(k *wire.Keyring) {
			if f.keys.Swap(k) == nil {
				close(f.firstKeys)
			}
		})
	})
}

// awaitKeys returns when the keys are there, if the cluster sends nothing without.
func (f *Follower) awaitKeys(ctx context.Context) error {
	if f.Map().Tags != wire.TagsRequired {
		return nil
	}
	select {
	case <-f.firstKeys:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// someController is a client of any of the controllers.
func (f *Follower) someController() (controllerv1.ControllerClient, func(), error) {
	controllers := f.Map().Controllers
	conn, err := f.conn(controllers[rand.IntN(len(controllers))])
	if err != nil {
		return nil, nil, err
	}
	return controllerv1.NewControllerClient(conn), func() {}, nil
}
