package node

import (
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cli/clitest"
)

// TestTombstonesAreCollected creates and deletes ten times as many keys as the nodes have room for. No write may find a
// full table, reads have to see what was written, and a key that comes back has a higher version than before.
func TestTombstonesAreCollected(t *testing.T) {
	const objects, clients = 2000, 4
	m := clitest.StartManaged(t, "127.2.6.7", "--shards", "4", "--replicas", "2", "--form-with", "2")
	for _, name := range []string{"n1", "n2"} {
		m.Run(name, "node", "--name", name, "--addr", "127.2.6.7"+name[1:]+":4411", "--join", m.Controller, "--plane", "soft",
			"--objects", fmt.Sprint(objects), "--labels", "zone="+name)
	}
	m.Await("two members in every chain", clitest.FullyReplicated(2))
	c := m.Client()
	stays, err := c.Put(t.Context(), "stays", []byte("here"))
	if err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	for i := range clients {
		group.Go(func() error { return createAndDelete(t, c, fmt.Sprint("client ", i), 10*objects/clients) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Get(t.Context(), "stays"); err != nil || string(r.Value) != "here" || r.Version != stays.Version {
		t.Errorf("a key that nobody deletes is %+v, %v", r, err)
	}
}

func createAndDelete(t *testing.T, c *client.Client, name string, keys int) error {
	last := uint64(0)
	for i := range keys {
		key := fmt.Sprint(name, " ", i)
		if i%100 == 0 {
			key = name // which comes back
		}
		w, err := c.CAS(t.Context(), key, 0, []byte(key))
		if err != nil {
			return err
		}
		if key == name {
			if w.Version <= last {
				return fmt.Errorf("%s came back with version %d, after %d", key, w.Version, last)
			}
			last = w.Version
		}
		if r, err := c.Get(t.Context(), key); err != nil || string(r.Value) != key {
			return fmt.Errorf("%s is %+v, %w", key, r, err)
		}
		if _, err := c.Delete(t.Context(), key); err != nil {
			return err
		}
		if _, err := c.Get(t.Context(), key); !errors.Is(err, client.ErrNotFound) {
			return fmt.Errorf("%s is deleted, and a read says: %w", key, err)
		}
	}
	return nil
}
