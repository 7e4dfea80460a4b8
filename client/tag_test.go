package client

import (
	"errors"
	"testing"

	"github.com/netcraq/netcraq/wire"
)

// keyHolder follows a cluster with tags.
type keyHolder struct {
	*follower
	ring *wire.Keyring
}

func (h *keyHolder) Keys() *wire.Keyring { return h.ring }

// A write that was begun, but whose key is gone before it was sent, is denied, and certainly did not happen.
func TestKeysTakenAway(t *testing.T) {
	f := newFollower(t, startCluster(t, 1, 1).cluster)
	f.newest.Tags = wire.TagsRequired
	secret := new(wire.Secret)
	holder := &keyHolder{f, &wire.Keyring{Sign: 1, Keys: []wire.Keys{{Generation: 1, Read: secret, Write: secret}}}}
	c := newClient(t, Options{Follow: holder})
	for _, op := range []Op{PutOp("k", nil), GetOp("k")} {
		var k call
		at := c.start(t.Context(), true)
		begin(t, &k, &at, &op)
		ring := holder.ring
		holder.ring = &wire.Keyring{Sign: 1}
		if _, ok := k.aim(); ok || !errors.Is(k.outcome.Err, ErrDenied) || errors.Is(k.outcome.Err, ErrOutcomeUnknown) {
			t.Errorf("%v: %v", op.kind, k.outcome.Err)
		}
		holder.ring = ring
		begin(t, &k, &at, &op)
		if _, ok := k.aim(); !ok || !k.single() {
			t.Errorf("%v with a tag would be in a bundle: %v", op.kind, k.outcome.Err)
		}
	}
}
