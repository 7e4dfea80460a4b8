// Package keyring receives the keys of a cluster with tags from its controllers, for nodes and clients.
package keyring

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

// Time between two attempts to reach a controller. It doubles while none answers.
const (
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
)

// Dial returns a client of a controller, each time of another one, and the function that closes it.
type Dial func() (controllerv1.ControllerClient, func(), error)

// Receive calls take with the keys that the caller may have, and again after each change, until ctx ends.
func Receive(ctx context.Context, dial Dial, take func(*wire.Keyring)) {
	for pauses := retry.Between(pauseMin, pauseMax); ; {
		if listen(ctx, dial, take) {
			pauses.Reset()
		}
		if !pauses.Wait(ctx) {
			return
		}
	}
}

// listen receives keys from one controller until the connection fails. It reports whether it received any.
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
