package agent

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/keyring"
	"github.com/netcraq/netcraq/wire"
)

// keepKeys gives the plane of a cluster with tags its keys (T3). Until the first ones it takes no tag.
func (m *membership) keepKeys(ctx context.Context) {
	keyring.Receive(ctx, m.someController, func(k *wire.Keyring) {
		if err := m.plane.SetKeys(k); err != nil {
			m.log.Error("new keys cannot be used; those before stay in force", "error", err)
			return
		}
		m.keys.Store(k)
	})
}

// someController is a client of any of the controllers.
func (m *membership) someController() (controllerv1.ControllerClient, func(), error) {
	links := m.allLinks()
	if len(links) == 0 {
		return nil, nil, errors.New("no controller is known")
	}
	client, conn, err := dialController(links[rand.IntN(len(links))].address, m.join.DialOptions)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { conn.Close() }, nil
}
