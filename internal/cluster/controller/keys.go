package controller

import (
	"crypto/rand"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/wire"
)

// rotateEvery is the time in which one generation of keys is in force (T3).
const rotateEvery = 2 * time.Minute

// keepKeys makes the keys of a cluster with tags, and new ones again and again, while this controller leads. A cluster that
// had tags goes on with new ones: none is in force for longer than others when it has tags again.
func (t *leading) keepKeys() {
	ring := t.leadership.Keys
	err := t.c.view.until(t.ctx, func() bool { return ring != nil || t.c.view.formation.Settings.Tags.Phase != wire.TagsOff })
	if err != nil {
		return
	}
	if ring == nil {
		first := newKeys(1)
		ring = &wire.Keyring{Sign: first.Generation, Keys: []wire.Keys{first, newKeys(2)}}
		err = t.leadership.StoreKeys(t.ctx, ring)
	}
	rotations := time.NewTicker(rotateEvery)
	defer rotations.Stop()
	for err == nil {
		select {
		case <-t.ctx.Done():
			return
		case <-rotations.C:
			ring = rotate(ring)
			err = t.leadership.StoreKeys(t.ctx, ring)
		}
	}
	if t.ctx.Err() == nil {
		t.c.log.Error("keys cannot be stored; those before stay in force", "because", err)
	}
}

// rotate puts the next generation in force, which all know by now, and adds the one after it.
func rotate(old *wire.Keyring) *wire.Keyring {
	next := &wire.Keyring{Sign: old.Sign + 1}
	for _, keys := range old.Keys {
		if keys.Generation >= old.Sign { // the one that was in force until now, and the next
			next.Keys = append(next.Keys, keys)
		}
	}
	next.Keys = append(next.Keys, newKeys(next.Sign+1))
	return next
}

func newKeys(generation uint32) wire.Keys {
	var secrets [3]wire.Secret
	for i := range secrets {
		_, _ = rand.Read(secrets[i][:]) // never fails
	}
	return wire.Keys{Generation: generation, Read: &secrets[0], Write: &secrets[1], Chain: &secrets[2]}
}

// Keyed is of [store.Follower].
func (v *view) Keyed(k *wire.Keyring) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = k
	v.tell()
}

// Keys is of the API.
func (c *Controller) Keys(_ *controllerv1.KeysRequest, stream grpc.ServerStreamingServer[controllerv1.KeysResponse]) error {
	role := security.RoleOf(stream.Context())
	var told *wire.Keyring
	for {
		err := c.view.until(stream.Context(), func() bool {
			if c.view.keys == told {
				return false
			}
			told = c.view.keys
			return true
		})
		if err != nil {
			return nil // the asker has gone
		}
		if err := stream.Send(keysFor(role, told)); err != nil {
			return err
		}
	}
}

// keysFor are the keys that a role may have (T2).
func keysFor(role security.Role, k *wire.Keyring) *controllerv1.KeysResponse {
	out := &controllerv1.KeysResponse{Sign: k.Sign}
	for _, keys := range k.Keys {
		set := &controllerv1.KeySet{Generation: keys.Generation, Read: keys.Read.Bytes()}
		if role.Writes() {
			set.Write = keys.Write.Bytes()
		}
		if role == security.Node {
			set.Chain = keys.Chain.Bytes()
		}
		out.Keys = append(out.Keys, set)
	}
	return out
}
