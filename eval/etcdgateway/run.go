package etcdgateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/peer/etcd"
)

const (
	dialWithin = 10 * time.Second
	// placeWithin is how long the gateway may take to place the keys that are read.
	placeWithin = 20 * time.Second
	// learn is how long the Zipf load runs before the first round, so that the gateway chooses its keys.
	learn = 2 * time.Second
)

// bench is a running comparison.
type bench struct {
	*Options
	members         *etcd.Cluster
	gateway         *Process
	through, direct []*clientv3.Client       // clients of the gateway, and of etcd's members in turn
	frames          [2][]*etcdload.FrameConn // the same
}

// Run starts the members and the gateway, and measures.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.say("starting %d etcd members and a gateway", o.Members)
	members, err := etcd.Start(ctx, etcd.Options{Binary: o.Etcd, Members: o.Members})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, members.Stop()) }()
	b := &bench{Options: &o, members: members}
	start := func(listen string) []string { return o.Gateway(listen, members.Endpoints()) }
	if b.gateway, err = StartProcess(ctx, start); err != nil {
		return nil, err
	}
	defer b.gateway.Kill()
	defer b.hangUp()
	if err := b.connect(members.Endpoints()); err != nil {
		return nil, err
	}
	if err := b.fill(ctx); err != nil {
		return nil, err
	}
	if err := b.warm(ctx); err != nil {
		return nil, err
	}
	result := newResult(&o, members.Settings())
	loads := o.loads()
	for round := range o.Rounds {
		if err := b.round(ctx, result, loads, round); err != nil {
			return nil, err
		}
	}
	if o.Profile != "" {
		if err := b.profile(ctx, &loads[slices.Index(names, o.ProfileLoad)]); err != nil {
			return nil, err
		}
	}
	result.summarise()
	return result, nil
}

// connect opens the clients.
func (b *bench) connect(endpoints []string) error {
	for i := range b.Conns {
		for _, side := range []struct {
			clients  *[]*clientv3.Client
			endpoint string
			frames   *[]*etcdload.FrameConn
		}{{&b.through, b.gateway.address, &b.frames[0]}, {&b.direct, endpoints[i%len(endpoints)], &b.frames[1]}} {
			c, err := clientv3.New(clientv3.Config{
				Endpoints: []string{side.endpoint}, DialTimeout: dialWithin, Logger: zap.NewNop(), // errors are counted
			})
			if err != nil {
				return fmt.Errorf("connect to %s: %w", side.endpoint, err)
			}
			*side.clients = append(*side.clients, c)
			f, err := etcdload.DialFrames(strings.TrimPrefix(side.endpoint, "http://"))
			if err != nil {
				return fmt.Errorf("connect to %s: %w", side.endpoint, err)
			}
			*side.frames = append(*side.frames, f)
		}
	}
	return nil
}

func (b *bench) hangUp() {
	for _, c := range append(b.through, b.direct...) {
		_ = c.Close() // its error only reports that the connection is gone
	}
	for _, c := range slices.Concat(b.frames[0], b.frames[1]) {
		_ = c.Close()
	}
}

// fill writes all keys but the one that probes ask for.
func (b *bench) fill(ctx context.Context) error {
	b.say("writing the keys")
	keys := []string{watchedKey}
	for i := range b.HotKeys {
		keys = append(keys, hotKey(i), placedKey(i), directPrefix+placedKey(i))
	}
	for i := range b.ZipfKeys {
		keys = append(keys, zipfKey(i), coldKey(i), directPrefix+coldKey(i), mixedKey(i), directPrefix+mixedKey(i))
	}
	value := strings.Repeat("v", b.ValueBytes)
	return b.all(ctx, keys, func(c *clientv3.Client, key string) error {
		_, err := c.Put(ctx, key, value)
		return err
	})
}

// all does something for every key through the gateway, several at a time.
func (b *bench) all(ctx context.Context, keys []string, do func(c *clientv3.Client, key string) error) error {
	ctx, cancel := context.WithTimeout(ctx, placeWithin)
	defer cancel()
	errs := make([]error, b.Clients)
	var group sync.WaitGroup
	for w := range b.Clients {
		group.Go(func() {
			for i := w; i < len(keys) && errs[w] == nil; i += b.Clients {
				if errs[w] = ctx.Err(); errs[w] == nil {
					errs[w] = do(b.through[w%len(b.through)], keys[i])
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// warm reads until the chain answers every read of a key that a load needs in place.
func (b *bench) warm(ctx context.Context) error {
	b.say("waiting until the gateway has placed the keys")
	keys := []string{probeKey}
	for i := range b.HotKeys {
		keys = append(keys, hotKey(i), placedKey(i))
	}
	for limit := time.Now().Add(placeWithin); ; {
		hits, err := b.readAll(ctx, keys)
		if err != nil {
			return err
		}
		if hits >= len(keys) {
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("the chain answers %d of %d keys %v after the first read: "+
				"give the gateway more room with --cache-bytes", hits, len(keys), placeWithin)
		}
	}
	o := *b.Options
	o.Seconds = learn.Seconds()
	loads := o.loads()
	_, err := o.plan().Run(ctx, b.through, &loads[1], -1)
	return err
}

// measure measures a load on one side, once.
type measure func(ctx context.Context, l *etcdload.Load, round int) (etcdload.Window, error)

// round measures every load on both sides, with both kinds of clients. The side that begins changes.
func (b *bench) round(ctx context.Context, result *Result, loads []etcdload.Load, round int) error {
	own := [2]measure{}
	frames := [2]measure{}
	for i, conns := range [][]*clientv3.Client{b.through, b.direct} {
		own[i] = func(ctx context.Context, l *etcdload.Load, round int) (etcdload.Window, error) {
			return b.plan().Run(ctx, conns, l, round)
		}
		frames[i] = func(ctx context.Context, l *etcdload.Load, round int) (etcdload.Window, error) {
			return b.plan().RunFrames(ctx, b.frames[i], l, round)
		}
	}
	for i := range loads {
		b.say("round %d of %d: %s", round+1, b.Rounds, loads[i].Name)
		for _, kind := range []struct {
			measures [2]measure
			result   *Ratios
		}{{own, &result.Ratios}, {frames, &result.Frames}} {
			pair, err := b.pair(ctx, kind.measures, &loads[i], round)
			if err != nil {
				return err
			}
			kind.result.Loads[i].Rounds = append(kind.result.Loads[i].Rounds, pair)
		}
	}
	b.say("round %d of %d: watch", round+1, b.Rounds)
	delays, err := b.watchDelay(ctx)
	result.delays = append(result.delays, delays...)
	return err
}

// pair measures a load through the gateway, the first measure, and straight to etcd.
func (b *bench) pair(ctx context.Context, measures [2]measure, l *etcdload.Load, round int) (pair Pair, err error) {
	for turn := range 2 {
		if (turn+round)%2 == 0 {
			pair.Gateway, err = b.measureGateway(ctx, measures[0], l, round)
		} else {
			pair.Etcd, err = b.measureCPU(ctx, measures[1], direct(l), round)
		}
		if err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// measureGateway also counts the reads that the chain answered.
func (b *bench) measureGateway(ctx context.Context, do measure, l *etcdload.Load, round int) (Window, error) {
	before, err := b.gateway.hits(ctx)
	if err != nil {
		return Window{}, err
	}
	w, err := b.measureCPU(ctx, do, l, round)
	switch {
	case err != nil:
		return w, err
	case l.Name == placedPut:
		w.HitShare, err = b.placedShare(ctx)
		return w, err
	case l.Writes == 1:
		return w, nil
	}
	after, err := b.gateway.hits(ctx)
	reads := float64(w.Begun) * (1 - l.Writes)
	w.HitShare = min(1, float64(after.All-before.All)/reads)
	w.NearbyShare = min(1, float64(after.Nearby-before.Nearby)/reads)
	return w, err
}

// placedShare reads the keys of the load of placed keys once. It returns the part that the chain answered.
func (b *bench) placedShare(ctx context.Context) (float64, error) {
	var keys []string
	for i := range b.HotKeys {
		keys = append(keys, placedKey(i))
	}
	hits, err := b.readAll(ctx, keys)
	return float64(hits) / float64(len(keys)), err
}

// readAll reads each key once through the gateway. It returns how many reads the chain answered.
func (b *bench) readAll(ctx context.Context, keys []string) (int, error) {
	before, err := b.gateway.hits(ctx)
	if err != nil {
		return 0, err
	}
	err = b.all(ctx, keys, func(c *clientv3.Client, key string) error {
		_, err := c.Get(ctx, key)
		return err
	})
	if err != nil {
		return 0, err
	}
	after, err := b.gateway.hits(ctx)
	return int(after.All - before.All), err
}

// measureCPU also measures CPU time.
func (b *bench) measureCPU(ctx context.Context, do measure, l *etcdload.Load, round int) (w Window, err error) {
	before, err := b.used()
	if err != nil {
		return w, err
	}
	w.Window, err = do(ctx, l, round)
	if err != nil {
		return w, err
	}
	now, err := b.used()
	w.CPU = now.since(before, w.Begun)
	return w, err
}

// profile profiles the gateway under a load.
func (b *bench) profile(ctx context.Context, l *etcdload.Load) error {
	b.say("profiling the gateway")
	o := *b.Options
	o.Seconds = max(3, o.Seconds)
	done := make(chan error, 1)
	go func() { done <- b.gateway.profile(ctx, b.Profile, o.plan().Length()) }()
	_, err := o.plan().Run(ctx, b.through, l, b.Rounds)
	return errors.Join(err, <-done)
}
