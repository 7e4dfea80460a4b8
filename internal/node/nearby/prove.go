package nearby

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/wire"
)

const (
	// keyPrefix begins the keys of the values by which a node's memory is recognised.
	keyPrefix = "netcraq/nearby/"
	// keys is how many such keys a node has, so that clients hardly meet. They are never deleted.
	keys = 8
	// keyTries bounds the search for a key of a chain with the node.
	keyTries = 1 << 16
	// proveWithin bounds a proof.
	proveWithin = 2 * time.Second
)

var (
	// errNotOurs says that a data plane is that of a node which the client's map does not have.
	errNotOurs = errors.New("the node is not one of this cluster")
	errNotSeen = errors.New("a value written to the chain does not appear in the node's memory: " +
		"it is not in the chain at present, or it is a node of another cluster")
	errNoShard = errors.New("the node is in no chain at present")
)

// open opens the memory of the node that is pinned in a directory, if it belongs to the client's cluster.
func open(ctx context.Context, c *client.Client, pin string) (*node, error) {
	addr, err := xdp.PinnedNode(pin)
	if err != nil {
		return nil, err
	}
	name, ok := nameOf(c.Map(), addr)
	if !ok {
		return nil, errNotOurs
	}
	memory, err := xdp.OpenNearby(pin)
	if err != nil {
		return nil, err
	}
	if err := prove(ctx, c, memory, name); err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &node{name: name, pin: pin, memory: memory}, nil
}

func nameOf(m *client.Map, addr netip.AddrPort) (string, bool) {
	for i := range m.Nodes {
		if m.Nodes[i].Addr == addr {
			return m.Nodes[i].Name, true
		}
	}
	return "", false
}

// prove writes a random value to a chain of the node and waits until the memory has it.
func prove(ctx context.Context, c *client.Client, memory *xdp.Nearby, name string) error {
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	key, err := keyOf(c, name)
	if err != nil {
		return err
	}
	hashed, err := wire.HashKey([]byte(key))
	if err != nil {
		return err
	}
	value := rand.Text()
	written, err := c.Put(ctx, key, []byte(value))
	if err != nil {
		return fmt.Errorf("a value by which the node's memory is recognised: %w", err)
	}
	for pauses := retry.Between(time.Millisecond, 50*time.Millisecond); ; {
		seen := false
		err := memory.Read([]wire.Key{hashed}, func(_ int, version uint64, _ uint32, found []byte) {
			seen = version == written.Version && string(found) == value
		})
		if seen || err != nil {
			return err
		}
		if !pauses.Wait(ctx) {
			return errNotSeen
		}
	}
}

// keyOf finds a key of a chain with the node.
func keyOf(c *client.Client, name string) (string, error) {
	var draw [1]byte
	rand.Read(draw[:]) // never fails
	for i := range keyTries {
		key := fmt.Sprintf("%s%s/%d/%d", keyPrefix, name, draw[0]%keys, i)
		at, err := c.Locate(key)
		if err != nil {
			return "", err
		}
		if slices.Contains(at.Chain, name) {
			return key, nil
		}
	}
	return "", errNoShard
}
