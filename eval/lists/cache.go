package lists

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// prefix is that of the objects that are listed. Nobody writes them.
const prefix = "/registry/configmaps/"

// requestEvery is how often an API server requests progress at most (k8s.io/apiserver/pkg/storage/cacher/progress).
const requestEvery = 100 * time.Millisecond

// cache knows up to which revision it has all events of the listed objects, as the watch cache of an API server does.
type cache struct {
	client *clientv3.Client
	ctx    context.Context // of the watch

	mu       sync.Mutex
	revision int64
	moved    chan struct{} // closed when the revision rises
	waiting  int
	waits    chan struct{} // receives when a list waits
	told     int           // progress
	asked    int           // requests for progress
	err      error         // of the watch
}

// openCache begins to watch.
func openCache(ctx context.Context, client *clientv3.Client) (*cache, error) {
	r, err := client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	c := &cache{
		client: client, ctx: clientv3.WithRequireLeader(ctx), revision: r.Header.Revision, moved: make(chan struct{}),
		waits: make(chan struct{}, 1),
	}
	go c.follow(c.client.Watch(c.ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1),
		clientv3.WithProgressNotify()))
	go c.request()
	return c, nil
}

func (c *cache) follow(watch clientv3.WatchChan) {
	for r := range watch {
		c.mu.Lock()
		if r.IsProgressNotify() {
			c.told++
		}
		if c.err = r.Err(); c.err == nil && r.Header.Revision > c.revision {
			c.revision = r.Header.Revision
		}
		close(c.moved)
		c.moved = make(chan struct{})
		c.mu.Unlock()
	}
}

// request requests progress while lists wait.
func (c *cache) request() {
	timer := time.NewTimer(requestEvery)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			return
		}
		for !c.waited() {
			select {
			case <-c.waits:
			case <-c.ctx.Done():
				return
			}
		}
		timer.Reset(requestEvery)
		if c.client.RequestProgress(c.ctx) == nil {
			c.mu.Lock()
			c.asked++
			c.mu.Unlock()
		}
	}
}

func (c *cache) waited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting > 0
}

// list reads the store's revision, waits until the cache has it, and returns how long that took.
func (c *cache) list(ctx context.Context) (wait time.Duration, err error) {
	r, err := c.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithLimit(1))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	c.wait(1)
	defer c.wait(-1)
	for {
		c.mu.Lock()
		has, moved, err := c.revision, c.moved, c.err
		c.mu.Unlock()
		if has >= r.Header.Revision || err != nil {
			return time.Since(begin), err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, fmt.Errorf("the cache has revision %d, and not %d: %w", has, r.Header.Revision, ctx.Err())
		}
	}
}

func (c *cache) wait(change int) {
	c.mu.Lock()
	c.waiting += change
	c.mu.Unlock()
	select {
	case c.waits <- struct{}{}:
	default:
	}
}

// counts returns how often progress was requested and told so far.
func (c *cache) counts() (asked, told int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.told
}
