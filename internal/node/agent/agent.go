package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/platform/metrics"
	"github.com/netcraq/netcraq/wire"
)

// Options are the options of an agent.
type Options struct {
	Name    string            // of the node in its cluster
	Cluster *topology.Cluster // static configuration; nil if the shards will come by the API, or from controllers
	Join    *Join             // the cluster that controllers run; nil for none
	Plane   dataplane.Plane   // the caller closes it, after the agent has stopped
	API     string            // TCP address to serve the API on; empty for none
	Metrics string            // TCP address to serve metrics for Prometheus on; empty for none
	Log     *slog.Logger      // nil: slog.Default()
	Up      func()            // called once when the node serves; nil: nothing is

	ServerOptions []grpc.ServerOption // of the API, such as credentials
	DialOptions   []grpc.DialOption   // for calls of other nodes' agents, such as credentials

	// AcceptDataLoss lets a node of a static cluster that has no state serve although nodes of its chains that do not
	// answer may store writes (C10).
	AcceptDataLoss bool

	ResyncEvery time.Duration // 0: DefaultResyncEvery
	SessionRest time.Duration // after which a session is forgotten; 0: DefaultSessionRest
}

const (
	// DefaultResyncEvery is the time between two looks for dirty objects.
	DefaultResyncEvery = 50 * time.Millisecond
	// DefaultSessionRest is how long a session lives at least without a write, while there is room for others: many times
	// as long as clients repeat one (W12).
	DefaultSessionRest = 10 * wire.MaxRetryS * time.Second
)

// UpMessage is logged once the node is configured and its agent serves.
const UpMessage = "node is up"

// Agent looks after one node.
type Agent struct {
	options  Options
	log      *slog.Logger
	listener net.Listener // nil without an API
	scrapes  net.Listener // nil without metrics
	// membership is nil for a node that no controllers configure.
	membership *membership
	formation  formation // of a node that a cluster file configures
	sessions   *sweeper
	resyncer   *resyncer

	mu sync.Mutex // serialises changes of the configuration
}

// New takes the address of the API and configures the plane from the cluster file, if there is one. A plane without
// state whose chains have other members is configured by [Agent.Serve], as soon as they answer.
func New(o Options) (*Agent, error) {
	if o.ResyncEvery == 0 {
		o.ResyncEvery = DefaultResyncEvery
	}
	if o.SessionRest == 0 {
		o.SessionRest = DefaultSessionRest
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	a := &Agent{options: o, log: o.Log.With("node", o.Name)}
	if o.Cluster != nil {
		if err := a.checkCluster(o.Cluster); err != nil {
			return nil, err
		}
		if err := a.checkCells(o.Cluster); err != nil {
			return nil, err
		}
		if err := a.newFormation(o.Cluster); err != nil {
			return nil, err
		}
	}
	a.resyncer = newResyncer(o.Plane, a.log)
	a.sessions = newSweeper(o.Plane, o.SessionRest, a.tagPhase, a.log)
	if o.Join != nil {
		if err := a.checkUnclaimed(o.Join.Identity); err != nil {
			return nil, err
		}
		m, err := newMembership(&o, a.log, a.API, a.sessions)
		if err != nil {
			return nil, err
		}
		a.membership = m
	}
	if err := a.listen(); err != nil {
		a.closeListeners()
		return nil, err
	}
	if o.Cluster != nil && a.Configured() {
		if err := a.applyCluster(o.Cluster); err != nil {
			a.closeListeners()
			return nil, err
		}
	}
	return a, nil
}

// listen opens the ports of the API and of metrics.
func (a *Agent) listen() (err error) {
	for _, port := range []struct {
		listener      *net.Listener
		flag, address string
	}{{&a.listener, "--api", a.options.API}, {&a.scrapes, "--metrics", a.options.Metrics}} {
		if port.address == "" {
			continue
		}
		if *port.listener, err = net.Listen("tcp", port.address); err != nil {
			return explainListen(port.flag, port.address, err)
		}
	}
	return nil
}

// API is where the API is served, with the port that the kernel chose if 0 was asked for; empty without one.
func (a *Agent) API() string {
	if a.listener == nil {
		return ""
	}
	return a.listener.Addr().String()
}

// Serve looks after the node until ctx ends, which is no error. It may be called once. A node of a static cluster that
// has lost its state ends with a [StateLostError]. In a cluster that controllers run, an agent whose plane outlives it
// ends when no change of a chain needs it, at most departWithin after ctx.
func (a *Agent) Serve(ctx context.Context) error {
	if a.membership != nil && a.membership.outlived() {
		serving, end := a.membership.departAfter(ctx)
		defer end()
		ctx = serving
	}
	group, ctx := errgroup.WithContext(ctx)
	if a.listener != nil {
		group.Go(func() error { return a.serveAPI(ctx) })
	}
	if a.scrapes != nil {
		group.Go(func() error { return metrics.Serve(ctx, a.scrapes, a.Metrics()) })
	}
	group.Go(func() error {
		if !a.Configured() {
			if err := a.form(ctx, a.options.Cluster); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return err
			}
		}
		a.lookAfter(ctx, group)
		return nil
	})
	return group.Wait()
}

// lookAfter starts the tasks of a node that is configured, or that controllers will configure.
func (a *Agent) lookAfter(ctx context.Context, group *errgroup.Group) {
	info := a.options.Plane.Info()
	a.log.Info(UpMessage, "plane", info.Plane, "mode", info.Mode, "addr", info.Addr, "api", a.API())
	if a.options.Up != nil {
		a.options.Up()
	}
	if info.Why != "" {
		a.log.Warn("the data plane could be faster", "mode", info.Mode, "because", info.Why)
	}
	if c := a.options.Cluster; c != nil {
		group.Go(func() error { a.watchCells(ctx, c); return nil })
		if a.options.AcceptDataLoss {
			group.Go(func() error { return a.watchSilent(ctx, c) })
		}
	}
	if a.membership != nil {
		group.Go(func() error { return a.membership.serve(ctx) })
	}
	group.Go(func() error { a.resync(ctx); return nil })
	group.Go(func() error { a.probeContended(ctx); return nil })
	group.Go(func() error { a.sessions.run(ctx); return nil })
}

// Alive checks that the plane answers, and that nothing holds the lease's lock for ever.
func (a *Agent) Alive() error {
	if m := a.membership; m != nil {
		m.leaseLeft()
	}
	_, err := a.options.Plane.Usage()
	return err
}

// tagPhase returns the phase of tags that the plane is in (T6).
func (a *Agent) tagPhase() wire.Tags {
	if a.membership == nil {
		return a.options.Plane.Info().Options.Tags
	}
	return a.membership.tags.phase()
}

func (a *Agent) closeListeners() {
	for _, l := range []net.Listener{a.listener, a.scrapes} {
		if l != nil {
			l.Close()
		}
	}
}

// explainListen adds advice for the user to an error of opening the port that a flag names.
func explainListen(flag, addr string, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("TCP %s is taken, probably by another node's agent: stop it, or choose another address with %s", addr, flag)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not on an address of this machine: choose another with %s", addr, flag)
	}
	return fmt.Errorf("%s %q: %w", flag, addr, err)
}

// periodically calls do until ctx ends. do returns the time to the next call; it is longer after a call that took long,
// so that no more than a tenth of one CPU goes into it.
func periodically(ctx context.Context, first time.Duration, do func() time.Duration) {
	periodicallyOr(ctx, nil, first, do)
}

// periodicallyOr is periodically that also calls do when it is woken.
func periodicallyOr(ctx context.Context, woken <-chan struct{}, first time.Duration, do func() time.Duration) {
	const rest = 9
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-woken:
		}
		start := time.Now()
		next := do()
		timer.Reset(max(next, rest*time.Since(start)))
	}
}
