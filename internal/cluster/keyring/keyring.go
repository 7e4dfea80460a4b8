// Package keyring keeps the keys of a cluster with tags as its controllers give them, for nodes and for clients.
package keyring

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/wire"
)

// Time between two controllers that are asked; it doubles while none answers.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
)

// Dial returns a client of some controller, another one at each call, and what ends its use.
type Dial func() (controllerv1.ControllerClient, func(), error)

// Follow calls take with the keys that the caller may have, and with new ones whenever there are some, until ctx ends.
func Follow(ctx context.Context, dial Dial, take func(*wire.Keyring)) {
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		if listen(ctx, dial, take) {
			pause = pauseMin
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// listen takes keys from one controller as long as that works, and reports whether it did at all.
func listen(ctx context.Context, dial Dial, take func(*wire.Keyring)) (worked bool) {
	client, done, err := dial()
	if err != nil {
		return false
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Keys(ctx, &controllerv1.KeysRequest{})
	for err == nil {
		var in *controllerv1.KeysResponse
		if in, err = stream.Recv(); err == nil {
			take(ringOf(in))
			worked = true
		}
	}
	return worked
}

func ringOf(in *controllerv1.KeysResponse) *wire.Keyring {
	k := &wire.Keyring{Sign: in.GetSign()}
	for _, keys := range in.GetKeys() {
		k.Keys = append(k.Keys, wire.Keys{
			Generation: keys.GetGeneration(), Read: wire.SecretOf(keys.GetRead()), Write: wire.SecretOf(keys.GetWrite()),
			Chain: wire.SecretOf(keys.GetChain()),
		})
	}
	return k
}
