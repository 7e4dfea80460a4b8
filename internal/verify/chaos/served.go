package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/gatewaycheck"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// ServedOptions are what trials of servers of etcd's API have in common. Every host of a controller also runs a server.
type ServedOptions struct {
	Setup
	For        time.Duration
	Operations int     // of all clients together, after which the trial ends; 0: any number
	Seed       uint64  // of faults and of clients' operations; it does not cover the kernel's loss and scheduling
	Clients    int     // concurrent clients, each of which uses all servers
	Loss       float64 // loss on all links in percent, during the whole trial
	// Kinds are the kinds of faults to inject; empty: all of the cluster and of the servers.
	Kinds []string
	// Address is the address of the server on a host, and HistoryAddress one from which the history can be read.
	Address, HistoryAddress func(h lab.Host) string
	// Progress, if set, receives the state of the trial a few times a second.
	Progress func(ServedProgress)
}

// ServedResult is what results of such trials have in common.
type ServedResult struct {
	Ops         int            `json:"ops"`
	Answered    int            `json:"answered"`
	Unknown     int            `json:"unknown_outcomes"`
	Kinds       map[string]int `json:"answered_by_kind"`
	Events      int            `json:"watch_events"`
	Violations  int            `json:"violations"`
	Examples    []string       `json:"examples,omitempty"`
	Faults      map[string]int `json:"faults"`
	Repairs     int            `json:"repairs"`
	Restarts    int            `json:"restarts"` // of servers and of members of etcd that ended by themselves, because another part was away
	Crashes     []string       `json:"crashes,omitempty"`
	Controllers int            `json:"controllers"`
	Nodes       int            `json:"nodes"`
	Seed        uint64         `json:"seed"`
	Seconds     float64        `json:"seconds"`
}

// OK reports whether the trial found no violation.
func (r *ServedResult) OK() bool { return r.Violations == 0 && len(r.Crashes) == 0 }

// ServedProgress is the state of a running trial.
type ServedProgress struct {
	Elapsed      time.Duration
	Ops, Unknown int
	FromChain    uint64 // reads that the chain answered
	Faults       []string
}

// Parameters of the clients of servers.
const (
	servedKeys    = 6
	servedKeyOps  = 300 * servedKeys
	servedTimeout = 6 * time.Second
	servedPrefix  = "chaos/"
	servedLocks   = 4
	// servedSettle is how long watches may take to come to the present after the last fault.
	servedSettle = 2 * time.Minute
	// maxExamples bounds the violations that are quoted.
	maxExamples = 10
)

// scene is what one kind of trial has of its own.
type scene struct {
	services []*lab.Service
	recipes  []recipe
	engage   func(d *driver) // gives a driver the services
	workload gatewaycheck.Workload
	// page returns the page of a server's metrics, whose names begin with counters. FromChain counts reads that the chain
	// answered.
	page      func(h lab.Host) string
	counters  []string
	fromChain string
}

// served is one trial.
type served struct {
	scene
	o            *ServedOptions
	c            *cluster
	driver       *driver
	servers      *gatewaycheck.Gateways
	began        time.Time
	ops, unknown atomic.Int64

	mu    sync.Mutex
	total map[string]float64 // counters of all servers, except those of the last second before a kill
}

// serve brings a cluster up with servers, injects faults while clients work, and checks all that the clients saw
// against the history. It removes the cluster in any case. set makes the scene on the lab, and after what, if set, ends
// the trial.
func serve(
	ctx context.Context, o *ServedOptions, set func(*lab.Lab) scene, after func(context.Context, *served) error,
) (result *ServedResult, _ *served, err error) {
	c, err := up(ctx, &o.Setup)
	if err != nil {
		return nil, nil, err
	}
	t := &served{o: o, c: c, began: time.Now(), total: make(map[string]float64), scene: set(c.lab)}
	defer func() {
		if t.servers != nil {
			t.servers.Close()
		}
		if err == nil && !result.OK() || err != nil && ctx.Err() == nil {
			err = errors.Join(err, c.keepLogs(t.services...))
		}
		err = c.down(ctx, err)
	}()
	if err := t.start(ctx); err != nil {
		return nil, nil, err
	}
	if err := c.lab.SetFault(lab.Loss, o.Loss, lab.Where{}); err != nil {
		return nil, nil, err
	}
	t.driver = newDriver(c, o.Seed, slices.Concat(recipes, t.recipes), o.Kinds)
	t.engage(t.driver)
	for _, h := range t.hosts() {
		t.driver.addresses = append(t.driver.addresses, o.Address(h))
	}
	durable, err := c.observe(ctx, t.driver.lives)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = durable.end() }()
	t.driver.durable = durable
	record, err := t.suffer(ctx)
	if err == nil && after != nil {
		err = after(ctx, t)
	}
	if err != nil {
		return nil, nil, err
	}
	result, err = t.judge(ctx, record)
	return result, t, err
}

// start starts all services, and waits until every server answers.
func (t *served) start(ctx context.Context) (err error) {
	var addresses []string
	for _, h := range t.hosts() {
		addresses = append(addresses, t.o.Address(h))
	}
	for _, s := range t.services {
		if err := s.Start(); err != nil {
			return err
		}
	}
	if t.servers, err = gatewaycheck.Connect(addresses); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, formPatience)
	var reviver sync.WaitGroup
	reviver.Go(func() { t.revive(waiting) }) // a gateway ends if etcd has no leader yet
	err = t.servers.Ready(waiting)
	cancel()
	reviver.Wait()
	return err
}

// hosts are those of servers.
func (t *served) hosts() []lab.Host { return t.c.lab.Plan.With(lab.RoleController) }

// revive starts services again that ended by themselves, until ctx ends.
func (t *served) revive(ctx context.Context) {
	for retry.Sleep(ctx, restartAfter) {
		for _, s := range t.services {
			if !s.Alive() {
				_ = s.Start() // it is tried again
			}
		}
	}
}

// suffer runs clients while faults are injected. When it returns all faults are over.
func (t *served) suffer(ctx context.Context) (record *gatewaycheck.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.For)
	defer cancel()
	driven := make(chan error, 1)
	go func() {
		driven <- t.driver.run(ctx)
		cancel()
	}()
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	var others sync.WaitGroup
	others.Go(func() { t.report(beside) })
	if t.page != nil {
		others.Go(func() { t.count(beside) })
	}
	w := t.workload
	w.Prefix, w.Keys, w.Clients, w.KeyOps, w.Timeout = servedPrefix, servedKeys, t.o.Clients, servedKeyOps, servedTimeout
	w.Settle, w.Seed = servedSettle, t.o.Seed
	w.Told = func(o *gatewaycheck.Op) {
		if o.Err != nil {
			t.unknown.Add(1)
		}
		if t.ops.Add(1) == int64(t.o.Operations) {
			cancel()
		}
	}
	w.Ended = func() {
		err = errors.Join(<-driven, t.c.lab.ClearFaults(beside))
		others.Go(func() { t.revive(beside) })
	}
	record = w.Run(ctx, t.servers)
	stop()
	others.Wait()
	return record, err
}

// judge checks what clients saw.
func (t *served) judge(ctx context.Context, record *gatewaycheck.Record) (*ServedResult, error) {
	r := &ServedResult{
		Seed: t.o.Seed, Controllers: t.o.Lab.Controllers, Nodes: t.o.Lab.Nodes,
		Faults: maps.Clone(t.driver.count), Repairs: t.driver.repairs, Crashes: t.driver.crashes, Restarts: t.driver.restarts,
		Kinds: record.Kinds(), Seconds: time.Since(t.began).Seconds(),
	}
	r.Answered, r.Unknown, r.Events = record.Counts()
	r.Ops = r.Answered + r.Unknown
	for _, s := range t.services {
		if crash := s.Crashed(); crash != "" {
			r.Crashes = append(r.Crashes, s.Name+": "+crash)
		}
	}
	t.o.event("checking %d operations and %d events", r.Ops, r.Events)
	var members []string
	for _, h := range t.hosts() {
		members = append(members, t.o.HistoryAddress(h))
	}
	reading, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	h, err := gatewaycheck.ReadHistoryFrom(reading, members, servedPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	violations := record.Check(h)
	r.Violations, r.Examples = len(violations), violations[:min(len(violations), maxExamples)]
	return r, nil
}

// Explain lists the violations.
func (r *ServedResult) Explain() string {
	var text strings.Builder
	for _, v := range r.Examples {
		fmt.Fprintln(&text, v)
	}
	if more := r.Violations - len(r.Examples); more > 0 {
		fmt.Fprintf(&text, "and %d more\n", more)
	}
	for _, c := range r.Crashes {
		fmt.Fprintf(&text, "ended unexpectedly: %s\n", c)
	}
	return text.String()
}

// report reports the progress until ctx ends.
func (t *served) report(ctx context.Context) {
	for t.o.Progress != nil && retry.Sleep(ctx, progressEvery) {
		p := ServedProgress{
			Elapsed: time.Since(t.began), Ops: int(t.ops.Load()), Unknown: int(t.unknown.Load()), FromChain: t.counted(t.fromChain),
		}
		t.driver.mu.Lock()
		for _, f := range t.driver.active {
			p.Faults = append(p.Faults, f.String())
		}
		t.driver.mu.Unlock()
		t.o.Progress(p)
	}
}

// count sums the servers' counters, which begin anew when a server is started.
func (t *served) count(ctx context.Context) {
	last := make(map[string]map[string]float64)
	for retry.Sleep(ctx, time.Second) {
		for _, h := range t.hosts() {
			now, err := gatewaycheck.ReadMetrics(ctx, t.page(h), t.counters...)
			if err != nil {
				continue // it is away
			}
			t.mu.Lock()
			for name, value := range now {
				before := last[h.Name][name]
				if value < before {
					before = 0
				}
				t.total[name] += value - before
			}
			t.mu.Unlock()
			last[h.Name] = now
		}
	}
}

// counted returns the sum of a counter.
func (t *served) counted(name string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(t.total[name])
}
