package etcdmember

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/eval/cputime"
	"github.com/netcraq/netcraq/eval/etcdload"
	"github.com/netcraq/netcraq/eval/peer/etcd"
)

// bench is a running comparison.
type bench struct {
	*Options
	ours, etcd *cluster
}

// Run starts both clusters and measures.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	b := &bench{Options: &o}
	o.say("starting %d members of etcd, and %d of %s", o.Members, o.Members, o.Ours)
	plain, err := etcd.Start(ctx, etcd.Options{Binary: o.Etcd, Members: o.Members, Dir: o.Dir})
	if err != nil {
		return nil, err
	}
	o.say("writing %d keys to each", o.Keys)
	if b.etcd, err = connect(ctx, &o, plain); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.etcd.stop()) }()
	ours, err := o.Start(ctx)
	if err != nil {
		return nil, err
	}
	if b.ours, err = connect(ctx, &o, ours); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.ours.stop()) }()
	result := newResult(&o, plain.Settings())
	loads := o.loads()
	for round := range o.Rounds {
		if err := b.round(ctx, result, loads, round); err != nil {
			return nil, err
		}
	}
	result.summarise(&o)
	return result, nil
}

// send sends a load to a cluster.
type send func(ctx context.Context, c *cluster, l *load, round int) (etcdload.Window, error)

// sender returns how a kind of clients sends a load, with its method of a plan.
func sender[C any](b *bench, clientsOf func(*cluster) []C,
	run func(*etcdload.Plan, context.Context, []C, *etcdload.Load, int) (etcdload.Window, error),
) send {
	return func(ctx context.Context, c *cluster, l *load, round int) (etcdload.Window, error) {
		clients, err := at(ctx, c, l.at, clientsOf(c))
		if err != nil {
			return etcdload.Window{}, err
		}
		plan := b.plan()
		if l.alone {
			plan.Clients, clients = 1, clients[:1]
		}
		return run(plan, ctx, clients, &l.Load, round)
	}
}

// round measures every load on both clusters, with both kinds of clients.
func (b *bench) round(ctx context.Context, result *Result, loads []load, round int) error {
	own := sender(b, func(c *cluster) []*clientv3.Client { return c.clients }, (*etcdload.Plan).Run)
	frames := sender(b, func(c *cluster) []*etcdload.FrameConn { return c.frames }, (*etcdload.Plan).RunFrames)
	putting := loads[slices.IndexFunc(loads, func(l load) bool { return l.Name == puts })].Load
	for i := range loads {
		b.say("round %d of %d: %s", round+1, b.Rounds, loads[i].Name)
		for _, kind := range []struct {
			send   send
			result *Ratios
		}{{own, &result.Ratios}, {frames, &result.Frames}} {
			send := kind.send
			if loads[i].busy {
				send = b.besidePuts(send, &putting)
			}
			pair, err := b.pair(ctx, send, &loads[i], round)
			if err != nil {
				return err
			}
			kind.result.Loads[i].Rounds = append(kind.result.Loads[i].Rounds, pair)
		}
	}
	if result.Fanout == nil {
		return nil
	}
	b.say("round %d of %d: %s", round+1, b.Rounds, fanouts)
	plan := b.plan()
	plan.Seconds = max(plan.Seconds, leastFanout)
	pair, err := b.pair(ctx, func(ctx context.Context, c *cluster, _ *load, _ int) (etcdload.Window, error) {
		return plan.RunFanout(ctx, c.clients, b.fanout())
	}, &load{}, round)
	result.Fanout.Rounds = append(result.Fanout.Rounds, pair)
	return err
}

// besidePuts sends a load while as many clients of etcd's put at the leader.
func (b *bench) besidePuts(other send, puts *etcdload.Load) send {
	return func(ctx context.Context, c *cluster, l *load, round int) (w etcdload.Window, err error) {
		clients, err := at(ctx, c, leader, c.clients)
		if err != nil {
			return w, err
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error {
			_, err := b.plan().Run(ctx, clients, puts, round)
			return err
		})
		group.Go(func() (err error) {
			w, err = other(ctx, c, l, round)
			return err
		})
		return w, group.Wait()
	}
}

// pair measures a load on both clusters. The one that begins changes.
func (b *bench) pair(ctx context.Context, send send, l *load, round int) (pair Pair, err error) {
	for turn := range 2 {
		if (turn+round)%2 == 0 {
			pair.Member, err = b.measureOurs(ctx, send, l, round)
		} else {
			pair.Etcd, err = b.measure(ctx, b.etcd, send, l, round)
		}
		if err != nil {
			return pair, err
		}
	}
	return pair, nil
}

// measureOurs also measures how many reads were answered through the chain.
func (b *bench) measureOurs(ctx context.Context, send send, l *load, round int) (Window, error) {
	before, err := b.ours.counted(ctx, b.Fast)
	if err != nil {
		return Window{}, err
	}
	w, err := b.measure(ctx, b.ours, send, l, round)
	if err != nil || l.Writes == 1 {
		return w, err
	}
	after, err := b.ours.counted(ctx, b.Fast)
	w.FastShare = min(1, (after-before)/(float64(w.Begun)*(1-l.Writes)))
	return w, err
}

// measure measures a load and the CPU time that it takes.
func (b *bench) measure(ctx context.Context, c *cluster, send send, l *load, round int) (w Window, err error) {
	before, err := b.used(c)
	if err != nil {
		return w, err
	}
	if w.Window, err = send(ctx, c, l, round); err != nil {
		return w, errors.Join(err, c.Ended())
	}
	now, err := b.used(c)
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(w.Begun) }
	w.CPU = CPU{each(now.servers - before.servers), each(now.chain - before.chain), each(now.clients - before.clients)}
	return w, err
}

// used is the CPU time that processes have taken.
type used struct{ servers, chain, clients time.Duration }

// used returns the CPU time of a cluster, of the chain and of the clients so far.
func (b *bench) used(c *cluster) (u used, err error) {
	var errs [3]error
	u.servers, errs[0] = cputime.Of(c.PIDs()...)
	u.clients, errs[1] = cputime.Own()
	u.chain, errs[2] = cputime.Below(os.Getpid(), append(b.etcd.PIDs(), b.ours.PIDs()...)...)
	return u, errors.Join(errs[:]...)
}
