package etcdload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// Fanout is puts whose events many watchers get.
type Fanout struct {
	Watchers int    // of all keys that begin with Prefix
	Writers  int    // each puts a key of its own again when all watchers have its event
	Prefix   string // of the writers' keys
	Value    string
}

// fanout is a running Fanout.
type fanout struct {
	*Fanout
	seen []atomic.Int64  // how many watchers have the event of the present put of a writer
	all  []chan struct{} // all watchers have it
}

// RunFanout has the writers put keys, while the watchers are spread over connections. PerSecond is events, and the
// times are from the beginning of a put until the last watcher has its event.
func (p *Plan) RunFanout(ctx context.Context, conns []*clientv3.Client, o *Fanout) (w Window, err error) {
	f := &fanout{Fanout: o, seen: make([]atomic.Int64, o.Writers), all: make([]chan struct{}, o.Writers)}
	for i := range f.all {
		f.all[i] = make(chan struct{}, 1)
	}
	group, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, group.Wait())
	}()
	watches, err := f.watch(ctx, conns)
	if err != nil {
		return w, err
	}
	for _, watch := range watches {
		group.Go(func() error { return f.count(ctx, watch) })
	}
	seen := f.write(ctx, p, conns)
	if ctx.Err() != nil {
		return w, context.Cause(ctx)
	}
	w, err = p.window(&Load{Name: "watch fan-out"}, seen)
	w.PerSecond, w.Begun = w.PerSecond*float64(o.Watchers), w.Begun*o.Watchers
	return w, err
}

// watch opens all watches.
func (f *fanout) watch(ctx context.Context, conns []*clientv3.Client) ([]clientv3.WatchChan, error) {
	watches := make([]clientv3.WatchChan, f.Watchers)
	var group errgroup.Group
	for c, conn := range conns {
		group.Go(func() error {
			for i := c; i < f.Watchers; i += len(conns) {
				watches[i] = conn.Watch(ctx, f.Prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
				if first, ok := <-watches[i]; !ok || !first.Created {
					return errors.Join(errors.New("a watch was not created"), first.Err(), ctx.Err())
				}
			}
			return nil
		})
	}
	return watches, group.Wait()
}

// count counts the events of a watcher until ctx ends.
func (f *fanout) count(ctx context.Context, watch clientv3.WatchChan) error {
	for answer := range watch {
		if err := answer.Err(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("a watch has ended: %w", err)
		}
		for _, e := range answer.Events {
			writer, err := strconv.Atoi(strings.TrimPrefix(string(e.Kv.Key), f.Prefix))
			if err != nil || writer >= f.Writers {
				return fmt.Errorf("an event of the key %q, which nobody puts", e.Kv.Key)
			}
			if f.seen[writer].Add(1) == int64(f.Watchers) {
				f.all[writer] <- struct{}{}
			}
		}
	}
	return nil
}

// write has all writers put their keys.
func (f *fanout) write(ctx context.Context, p *Plan, conns []*clientv3.Client) []tally {
	from, until := p.bounds(time.Now())
	ctx, cancel := context.WithDeadline(ctx, until.Add(requestWithin))
	defer cancel()
	seen := make([]tally, f.Writers)
	var group sync.WaitGroup
	for i := range f.Writers {
		group.Go(func() {
			for start := time.Now(); start.Before(until) && ctx.Err() == nil; {
				seen[i].begun++
				err := f.put(ctx, conns[i%len(conns)], i)
				end := time.Now()
				if !end.Before(from) && !end.After(until) {
					seen[i].note(end.Sub(start), err)
				}
				if err != nil {
					return // its event may come late
				}
				start = end
			}
		})
	}
	group.Wait()
	return seen
}

// put puts a writer's key, and waits until all watchers have the event.
func (f *fanout) put(ctx context.Context, c *clientv3.Client, writer int) error {
	f.seen[writer].Store(0)
	if _, err := c.Put(ctx, f.Prefix+strconv.Itoa(writer), f.Value); err != nil {
		return err
	}
	select {
	case <-f.all[writer]:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d watchers have an event: %w", f.seen[writer].Load(), f.Watchers, context.Cause(ctx))
	}
}
