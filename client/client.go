package client

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// Client is a cluster's client. Its methods may be called from several goroutines at once.
type Client struct {
	options  Options
	view     atomic.Pointer[view]
	sessions sessions
	sockets  sockets
	ids      atomic.Uint64 // the next request id, without its slot
	bundles  atomic.Uint64 // see Traffic
	bundled  atomic.Uint64
	trains   atomic.Uint64
	refused  atomic.Uint64
	watches  watches

	bootTime func() time.Duration // see the function
	wallTime func() time.Duration

	taking  sync.Mutex // of a newer map
	unwatch func()
	pipes   pipes
}

// New makes a client. It sends nothing.
func New(o Options) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	m, err := o.firstMap()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	v, err := newView(m, nil)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if o.ReadFrom.policy == named && v.nodes[o.ReadFrom.name] == nil {
		return nil, fmt.Errorf("client: there is no node %q in the cluster", o.ReadFrom.name)
	}
	c := &Client{options: o, bootTime: bootTime, wallTime: wallTime, unwatch: func() {}}
	c.pipes.most = min(runtime.GOMAXPROCS(0), maxSockets)
	c.sockets.most = int64(c.pipes.most)
	c.view.Store(v)
	c.ids.Store(randomID())
	if o.Follow != nil {
		c.unwatch = o.Follow.Watch(c.take)
	}
	return c, nil
}

// Close frees the client's sockets. Operations under way end with ErrClosed, writes among them with an unknown outcome.
func (c *Client) Close() error {
	c.unwatch()
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

// CAS stores a value iff the key's version is the expected one; 0 stands for a key that does not exist. Else the
// error is a CASFailedError with the present version and value.
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
	r := v.route(shard)
	return Location{Shard: shard, Epoch: r.epoch, Chain: r.names()}, nil
}

// Map is the client's present map. It must not be changed.
func (c *Client) Map() *Map { return c.view.Load().source }

// Traffic counts a client's bundles.
type Traffic struct {
	Bundles uint64 // datagrams sent with several requests in them
	Bundled uint64 // answers to such requests
	Trains  uint64 // several bundles that the kernel was given as one message, to cut it
	Refused uint64 // such messages that it did not cut
}

// Traffic counts since the client was made.
func (c *Client) Traffic() Traffic {
	return Traffic{c.bundles.Load(), c.bundled.Load(), c.trains.Load(), c.refused.Load()}
}

// requestID gives one attempt an id that no other attempt of this client has, and that another client has with
// negligible probability: a random start, counted up. The low bits name a slot of a pipeline.
func (c *Client) requestID(slot uint16) uint64 { return c.ids.Add(1)<<16 | uint64(slot) }

// take makes a newer map the client's, and has operations whose chain it changes tried again at once. A map that cannot
// come after the present one is not taken: operations that need another map end with the error of a node.
func (c *Client) take(m *Map) {
	c.taking.Lock()
	defer c.taking.Unlock()
	v, err := newView(m, c.view.Load())
	if err != nil {
		return
	}
	c.view.Store(v)
	c.pipes.reroute()
}

// stale tells the follower that a view's map seems to be old.
func (c *Client) stale(v *view) {
	if c.options.Follow != nil && v == c.view.Load() {
		c.options.Follow.Stale(v.source.Version)
	}
}
