package follow

import (
	"context"
	"math/rand/v2"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/keyring"
	"github.com/netcraq/netcraq/wire"
)

// Keys are the present keys of a cluster with tags; nil in one without.
func (f *Follower) Keys() *wire.Keyring { return f.keys.Load() }

// awaitKeys returns when the keys are there, if the cluster has some, and keeps them.
func (f *Follower) awaitKeys(ctx context.Context) error {
	if !f.Map().Tags {
		return nil
	}
	first := make(chan struct{})
	f.running.Go(func() {
		keyring.Receive(f.ctx, f.someController, func(k *wire.Keyring) {
			if f.keys.Swap(k) == nil {
				close(first)
			}
		})
	})
	select {
	case <-first:
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
