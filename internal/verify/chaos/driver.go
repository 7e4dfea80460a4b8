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
	betweenFaults = 1500 * time.Millisecond // mean time between faults
	betweenJoins  = 3 * time.Second         // the same for members of etcd: they join anew after most faults, which takes some seconds
	look          = 100 * time.Millisecond  // interval of checks for ended faults and processes
	restartAfter  = 500 * time.Millisecond  // minimum time between restarts of a process that ends unexpectedly
)

// driver injects faults and ends them. It runs in one goroutine, because a lab must not be changed
// concurrently.
type driver struct {
	lab         *lab.Lab
	setup       *Setup
	rng         *rand.Rand
	guard       *guard
	recipes     []recipe
	nodes       []string
	controllers []string
	leading     Leading
	restarted   map[string]time.Time // last restarts of processes that ended unexpectedly
	stops       *stops
	durable     *durable
	// Members of etcd and gateways, each beside the controller of the same index.
	members, gateways []*lab.Service
	addresses         []string         // of the gateways
	etcd              *memberControl   // of members that read through the chain
	keyspace          *keyspaceControl // of a keyspace on disks
	restarts          int              // of these, after they ended by themselves
	every             time.Duration    // mean time between faults

	mu      sync.Mutex // guards the fields below, which the progress display reads
	active  []*fault
	costly  map[string]time.Time // by node: end of the last fault that could remove it from its chains
	emptied map[string]uint64    // by node: incarnation whose state is lost
	count   map[string]int
	repairs int
	crashes []string
}

func newDriver(c *cluster, seed uint64, available []recipe, kinds []string) *driver {
	d := &driver{lab: c.lab, setup: c.setup, rng: rand.New(rand.NewPCG(seed, 0)), count: make(map[string]int), every: betweenFaults,
		restarted: make(map[string]time.Time), costly: make(map[string]time.Time),
		emptied: make(map[string]uint64), stops: newStops(c.lab)}
	d.recipes = slices.DeleteFunc(slices.Clone(available), func(r recipe) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, r.kind)
	})
	d.guard = &guard{c: c, impaired: make(map[string]bool)}
	for _, h := range c.lab.Plan.With(lab.RoleNode) {
		d.nodes = append(d.nodes, h.Name)
	}
	for _, h := range c.lab.Plan.With(lab.RoleController) {
		d.controllers = append(d.controllers, h.Name)
	}
	return d
}

// run injects faults until ctx ends. Then it ends the active ones, so that all chains can become
// whole.
func (d *driver) run(ctx context.Context) error {
	if d.setup.Upgrade != nil {
		return d.upgrade(ctx)
	}
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
			return err
		}
		if err := d.supervise(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if d.guard.watch(d.active) {
			d.mu.Lock()
			d.repairs++
			d.mu.Unlock()
			d.setup.event("whole again")
		}
		if time.Now().After(next) {
			if err := d.strike(ctx); err != nil {
				return err
			}
			next = time.Now().Add(d.interval())
		}
	}
}

func (d *driver) interval() time.Duration {
	return time.Duration(d.rng.ExpFloat64() * float64(d.every))
}

// strike injects the next fault if the guard permits it.
func (d *driver) strike(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, calm)
	leading, err := d.setup.Leader(asking, d.lab)
	cancel()
	if err == nil {
		d.leading = leading
	}
	f := d.invent()
	if f == nil || d.excludes(f) || !d.guard.permits(ctx, f, d.active, len(d.controllers)) {
		return nil
	}
	d.guard.struck(f)
	d.setup.event("%v, for %v", f, f.lasts.Round(time.Millisecond))
	return d.begin(ctx, f)
}

// begin injects a fault, and all of it although the trial may be over: then it ends at once.
func (d *driver) begin(ctx context.Context, f *fault) error {
	d.begins(f)
	f.over = time.Now().Add(f.lasts)
	return f.must("begin", f.begin(context.WithoutCancel(ctx)))
}

// excludes reports whether a fault and the active ones do not go together.
func (d *driver) excludes(f *fault) bool {
	return f.alone && len(d.active) > 0 || slices.ContainsFunc(d.active, func(other *fault) bool { return other.alone })
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
	return f.must("end", f.end(context.WithoutCancel(ctx))) // the trial may be over, and its checks need the cluster
}

// begins records a fault before it is injected.
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

// spare records the end of a fault.
func (d *driver) spare(f *fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.costs != "" {
		d.costly[f.costs] = time.Now()
	}
}

// lives reports whether a node has its state and no fault that could remove it from its chains, now
// or shortly before: the controllers' decision becomes durable a little later. Short pauses are not
// such faults.
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

// struck reports whether a fault affects a host.
func (d *driver) struck(host string) bool {
	return host == "" || slices.ContainsFunc(d.active, func(f *fault) bool { return slices.Contains(f.hosts, host) })
}

// supervise restarts and records processes that ended without a fault.
func (d *driver) supervise(ctx context.Context) error {
	for _, host := range slices.Concat(d.nodes, d.controllers) {
		if d.struck(host) || d.lab.AgentAlive(host) || time.Since(d.restarted[host]) < restartAfter {
			continue
		}
		d.restarted[host] = time.Now()
		d.setup.event("%s has ended unexpectedly: %s", host, d.lab.LastWords(host))
		d.mu.Lock()
		d.crashes = append(d.crashes, host)
		d.mu.Unlock()
		if err := d.lab.SwitchOn(ctx, host); err != nil {
			return err
		}
	}
	return d.superviseServices()
}
