package lists

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/eval/etcdgateway"
	"github.com/netcraq/netcraq/eval/etcdmember"
	"github.com/netcraq/netcraq/eval/peer/etcd"
	"github.com/netcraq/netcraq/eval/statistics"
)

// callWithin bounds a call of a client.
const callWithin = 10 * time.Second

// system is a store, with the two clients of an API server: each kind of objects has its own.
type system struct {
	lists  *cache
	writes *clientv3.Client
}

// bench is a running comparison.
type bench struct {
	*Options
	result  *Result
	systems []*system // as in the result
	close   []func() error
}

// Run starts all stores and measures them in turn.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &bench{Options: &o, result: newResult(&o)}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		for _, end := range slices.Backward(b.close) {
			err = errors.Join(err, end())
		}
	}()
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	for round := range o.Rounds {
		for i := range b.systems {
			s := b.systems[(i+round)%len(b.systems)]
			r := &b.result.Systems[(i+round)%len(b.systems)]
			o.say("round %d of %d: %s", round+1, o.Rounds, r.Name)
			w, err := b.measure(ctx, s, o.Seed+uint64(round))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.Name, err)
			}
			r.Rounds = append(r.Rounds, w)
		}
	}
	b.result.summarise()
	return b.result, nil
}

// start starts the stores.
func (b *bench) start(ctx context.Context) error {
	b.say("starting two clusters of %d members, a gateway and two memory gateways", b.Members)
	plain, err := b.cluster(ctx, etcd.Options{Binary: b.Etcd, Members: b.Members})
	if err != nil {
		return err
	}
	b.result.Settings = append(b.result.Settings, "both clusters: "+strings.Join(plain.Settings(), ", "))
	members, err := b.cluster(ctx, etcdmember.Members(b.Netcraq, b.ChainFile, b.Pins, b.Members))
	if err != nil {
		return err
	}
	gateway, err := b.process(ctx, func(listen string) []string { return b.Gateway(listen, plain.Endpoints()) })
	if err != nil {
		return err
	}
	if _, err := b.process(ctx, b.Memory); err != nil {
		return err
	}
	memory, err := b.process(ctx, b.Memory)
	if err != nil {
		return err
	}
	if err := etcdmember.AwaitOn(ctx, members); err != nil {
		return err
	}
	for _, s := range []struct{ name, endpoint string }{
		{Etcd, plain.Endpoints()[0]}, {Member, members.Endpoints()[0]}, {Gateway, gateway}, {Memory, memory},
	} {
		if err := b.connect(ctx, s.name, s.endpoint); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) cluster(ctx context.Context, o etcd.Options) (*etcd.Cluster, error) {
	c, err := etcd.Start(ctx, o)
	if err == nil {
		b.close = append(b.close, c.Stop)
	}
	return c, err
}

func (b *bench) process(ctx context.Context, command func(listen string) []string) (address string, err error) {
	p, err := etcdgateway.StartProcess(ctx, command)
	if err != nil {
		return "", err
	}
	b.close = append(b.close, func() error { p.Kill(); return nil })
	return p.Address(), nil
}

// connect opens the clients of a store, and the cache.
func (b *bench) connect(ctx context.Context, name, endpoint string) error {
	var clients [2]*clientv3.Client
	for i := range clients {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: callWithin, Logger: zap.NewNop()})
		if err != nil {
			return fmt.Errorf("connect to %s: %w", endpoint, err)
		}
		clients[i] = c
		b.close = append(b.close, func() error {
			_ = c.Close() // its error only reports that the connection is gone
			return nil
		})
	}
	lists, err := openCache(ctx, clients[0])
	if err != nil {
		return fmt.Errorf("watch at %s: %w", endpoint, err)
	}
	b.systems = append(b.systems, &system{lists, clients[1]})
	b.result.Systems = append(b.result.Systems, System{Name: name})
	return nil
}

// measure lists and writes at random moments.
func (b *bench) measure(ctx context.Context, s *system, seed uint64) (Window, error) {
	var mu sync.Mutex
	var waits []float64
	var errs []error
	note := func(wait time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			errs = append(errs, err)
			return
		}
		waits = append(waits, float64(wait.Microseconds())/1000)
	}
	asked, told := s.lists.counts()
	var calls sync.WaitGroup
	begin := time.Now()
	calls.Go(func() {
		b.arrivals(ctx, rand.New(rand.NewPCG(seed, 1)), b.Lists, &calls, func(ctx context.Context, _ int) { note(s.lists.list(ctx)) })
	})
	calls.Go(func() {
		b.arrivals(ctx, rand.New(rand.NewPCG(seed, 2)), b.Writes, &calls, func(ctx context.Context, i int) {
			if _, err := s.writes.Put(ctx, fmt.Sprintf("/registry/pods/%04d", i%1000), "v"); err != nil {
				note(0, err)
			}
		})
	})
	calls.Wait()
	took := time.Since(begin).Seconds()
	nowAsked, nowTold := s.lists.counts()
	if len(errs) > 0 || len(waits) == 0 {
		return Window{}, errors.Join(append(errs, errors.New("no list, or not all calls, were answered"))...)
	}
	slices.Sort(waits)
	return Window{
		Lists: len(waits), MeanMs: mean(waits), P50ms: statistics.Quantile(0.5, waits), P99ms: statistics.Quantile(0.99, waits),
		AskedPerS: float64(nowAsked-asked) / took, ToldPerS: float64(nowTold-told) / took,
	}, nil
}

func mean(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

// arrivals makes calls at random moments until the time is over. They do not wait for each other.
func (b *bench) arrivals(
	ctx context.Context, random *rand.Rand, rate float64, calls *sync.WaitGroup, call func(ctx context.Context, i int),
) {
	next := time.Now()
	for i, over := 0, next.Add(b.length()); ; i++ {
		next = next.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		if next.After(over) {
			return
		}
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callWithin)
			defer cancel()
			call(ctx, i)
		})
	}
}
