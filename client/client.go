package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// Client is a cluster's client. Its methods may be called from several goroutines at once.
type Client struct {
	options Options
	view    atomic.Pointer[view]
	lanes   lanes
	sockets sockets
	ids     atomic.Uint64 // the next request id, without its slot

	bootTime func() time.Duration // see the function

	refreshing sync.Mutex
	pipes      pipes
}

// New makes a client. It sends nothing.
func New(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	v, err := newView(o.Cluster, nil)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.ReadFrom.policy == named && v.nodes[o.ReadFrom.name] == nil {
		return nil, fmt.Errorf("client: there is no node %q in the cluster", o.ReadFrom.name)
	}
	c := &Client{options: o, bootTime: bootTime}
	c.view.Store(v)
	c.ids.Store(randomID())
	return c, nil
}

// Close frees the client's sockets. Operations under way end with ErrClosed, writes among them with an unknown outcome.
func (c *Client) Close() error {
	c.sockets.close()
	c.pipes.close()
	return nil
}

// Get reads a key. If there is none the error is ErrNotFound.
func (c *Client) Get(ctx context.Context, key string, options ...ReadOption) (Result, error) {
	return c.run(ctx, &Op{Key: key, kind: wire.OpRead, read: options})
}

// Put stores a value and returns its version.
func (c *Client) Put(ctx context.Context, key string, value []byte) (Result, error) {
	return c.run(ctx, &Op{Key: key, kind: wire.OpPut, value: value})
}

// Delete removes a key, whether it exists or not. The version returned is that of the deletion.
func (c *Client) Delete(ctx context.Context, key string) (Result, error) {
	return c.run(ctx, &Op{Key: key, kind: wire.OpDelete})
}

// CAS stores a value iff the key's version is the expected one; 0 stands for a key that does not exist. Else the error is
// a CASFailedError with what is there.
func (c *Client) CAS(ctx context.Context, key string, expected uint64, value []byte) (Result, error) {
	return c.run(ctx, &Op{Key: key, kind: wire.OpCAS, operand: expected, value: value})
}

// Add adds to a counter, an 8-byte value, and returns it as it is then; a key that does not exist counts as 0. It
// wraps around at 64 bits. Of a key with another value the error is ErrNotCounter.
func (c *Client) Add(ctx context.Context, key string, delta int64) (Result, error) {
	return c.run(ctx, &Op{Key: key, kind: wire.OpAdd, operand: uint64(delta)})
}

// Locate says which chain serves a key in the client's present map.
func (c *Client) Locate(key string) (Location, error) {
	hashed, err := hashKey(key)
	if err != nil {
		return Location{}, err
	}
	v := c.view.Load()
	shard := v.shard(hashed)
	return Location{Shard: shard, Epoch: v.cluster.Epoch, Chain: v.cluster.Chain(shard)}, nil
}

// requestID gives one attempt an id that no other attempt of this client has, and that another client has with
// negligible probability: a random start, counted up. The low bits name a slot of a pipeline.
func (c *Client) requestID(slot uint16) uint64 { return c.ids.Add(1)<<16 | uint64(slot) }

// renew replaces the map that a node called old. Calls that come meanwhile wait for it and find it replaced.
func (c *Client) renew(ctx context.Context, old *view) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	if c.view.Load() != old {
		return nil
	}
	cluster, err := c.options.Refresh(ctx, old.cluster)
	if err != nil {
		return fmt.Errorf("refreshing the cluster's map: %w", err)
	}
	if cluster == nil || cluster.Epoch <= old.cluster.Epoch {
		return errStillOld
	}
	if cluster.Shards != old.cluster.Shards {
		return fmt.Errorf("refreshing the cluster's map: it has %d shards now and had %d", cluster.Shards, old.cluster.Shards)
	}
	v, err := newView(cluster, old)
	if err != nil {
		return err
	}
	c.view.Store(v)
	return nil
}

var errStillOld = errors.New("the cluster's map is not newer yet")
