package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// Times of the schedule.
const (
	betweenFaults = 1500 * time.Millisecond // on average
	look          = 100 * time.Millisecond  // at what has ended
	restartAfter  = 500 * time.Millisecond  // at least, what ends again and again by itself
)

// driver lets faults strike and ends them, one thing after the other: a lab is changed by one goroutine at a time.
type driver struct {
	lab         *lab.Lab
	setup       *Setup
	rng         *rand.Rand
	guard       *guard
	nodes       []string
	controllers []string
	leading     Leading
	restarted   map[string]time.Time // what had ended by itself
	stops       *stops
	durable     *durable

	mu      sync.Mutex // for those who show what happens
	active  []*fault
	costly  map[string]time.Time // by node: when the last fault ended that could cost it its place in the chains
	emptied map[string]uint64    // by node: the incarnation whose state is lost
	count   map[string]int
	repairs int
	crashes []string
}

func newDriver(c *cluster, seed uint64) *driver {
	d := &driver{lab: c.lab, setup: c.setup, rng: rand.New(rand.NewPCG(seed, 0)), count: make(map[string]int),
		restarted: make(map[string]time.Time), costly: make(map[string]time.Time),
		emptied: make(map[string]uint64), stops: newStops(c.lab)}
	d.guard = &guard{c: c, impaired: make(map[string]bool)}
	for _, h := range c.lab.Plan.With(lab.RoleNode) {
		d.nodes = append(d.nodes, h.Name)
	}
	for _, h := range c.lab.Plan.With(lab.RoleController) {
		d.controllers = append(d.controllers, h.Name)
	}
	return d
}

// run drives until ctx ends and then ends what is left, so that everything can be whole again.
func (d *driver) run(ctx context.Context) error {
	next := time.Now().Add(d.interval())
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return d.endAll(context.WithoutCancel(ctx))
		case <-ticks.C:
		}
		if err := d.endDue(ctx); err != nil {
			return ifGoingOn(ctx, err)
		}
		if err := d.supervise(ctx); err != nil {
			return ifGoingOn(ctx, err)
		}
		if d.guard.watch(d.active) {
			d.mu.Lock()
			d.repairs++
			d.mu.Unlock()
			d.setup.event("whole again")
		}
		if time.Now().After(next) {
			if err := d.strike(ctx); err != nil {
				return ifGoingOn(ctx, err)
			}
			next = time.Now().Add(d.interval())
		}
	}
}

// ifGoingOn drops an error that is only the end of the trial.
func ifGoingOn(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *driver) interval() time.Duration {
	return time.Duration(d.rng.ExpFloat64() * float64(betweenFaults))
}

// strike lets the next fault strike, if it may.
func (d *driver) strike(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, calm)
	leading, err := d.setup.Leader(asking, d.lab)
	cancel()
	if err == nil {
		d.leading = leading
	}
	f := d.invent()
	if f == nil || !d.guard.permits(ctx, f, d.active, len(d.controllers)) {
		return nil
	}
	d.guard.struck(f)
	d.setup.event("%v, for %v", f, f.lasts.Round(time.Millisecond))
	d.begins(f)
	f.over = time.Now().Add(f.lasts)
	return f.must("begin", f.begin(ctx))
}

// endDue ends the faults whose time is over.
func (d *driver) endDue(ctx context.Context) error {
	for _, f := range slices.Clone(d.active) {
		if time.Now().After(f.over) {
			if err := d.end(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *driver) end(ctx context.Context, f *fault) error {
	d.mu.Lock()
	d.active = slices.DeleteFunc(slices.Clone(d.active), func(other *fault) bool { return other == f })
	d.mu.Unlock()
	d.spare(f)
	defer d.spare(f)
	d.setup.event("over: %v", f)
	return f.must("end", f.end(ctx))
}

// begins notes a fault that is about to strike.
func (d *driver) begins(f *fault) {
	var lost uint64
	if f.empties {
		lost = d.durable.incarnation(f.costs)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active = append(d.active, f)
	d.count[f.kind]++
	if f.empties {
		d.emptied[f.costs] = lost
	}
}

// spare notes that a fault ends now.
func (d *driver) spare(f *fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.costs != "" {
		d.costly[f.costs] = time.Now()
	}
}

// lives reports whether a node has its state, and no fault strikes it now that could cost it its place in the chains, or
// has just done so: what controllers decided then becomes durable a little later. Short pauses are no such faults.
func (d *driver) lives(n *reconfig.Node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	struck := slices.ContainsFunc(d.active, func(f *fault) bool { return f.costs == n.Name })
	ended, was := d.costly[n.Name]
	lost, emptied := d.emptied[n.Name]
	return !struck && (!was || time.Since(ended) > calm) && (!emptied || lost != n.Incarnation)
}

func (d *driver) endAll(ctx context.Context) error {
	var failed []error
	for _, f := range slices.Clone(d.active) {
		failed = append(failed, d.end(ctx, f))
	}
	return errors.Join(append(failed, d.supervise(ctx))...)
}

// struck reports whether something is wrong with a host.
func (d *driver) struck(host string) bool {
	return host == "" || slices.ContainsFunc(d.active, func(f *fault) bool { return slices.Contains(f.hosts, host) })
}

// supervise starts what has ended though no fault says so, and keeps a note of it.
func (d *driver) supervise(ctx context.Context) error {
	for _, host := range slices.Concat(d.nodes, d.controllers) {
		if d.struck(host) || d.lab.AgentAlive(host) || time.Since(d.restarted[host]) < restartAfter {
			continue
		}
		d.restarted[host] = time.Now()
		d.setup.event("%s has ended by itself: %s", host, d.lab.LastWords(host))
		d.mu.Lock()
		d.crashes = append(d.crashes, host)
		d.mu.Unlock()
		if err := d.lab.SwitchOn(ctx, host); err != nil {
			return err
		}
	}
	return nil
}
