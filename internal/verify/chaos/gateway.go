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

// GatewayOptions describe a trial of gateways with many faults. Every host of a controller also runs a gateway and, unless
// the gateways serve a keyspace in memory, a member of the etcd behind them.
type GatewayOptions struct {
	Setup
	For     time.Duration
	Seed    uint64  // of faults and of clients' operations; it does not cover the kernel's loss and scheduling
	Clients int     // concurrent clients, each of which uses all gateways
	Loss    float64 // loss on all links in percent, during the whole trial
	// Kinds are the kinds of faults to inject; empty: all of the cluster and of gateways.
	Kinds []string
	// Member and Gateway return the command lines of the processes on a host. Member is nil for a keyspace in memory.
	Member, Gateway func(l *lab.Lab, h lab.Host) []string
	// Address is the gateway's address on a host, and HistoryAddress one from which the history can be read: that of the
	// host's member of etcd, or the gateway's for a keyspace in memory.
	Address, HistoryAddress func(h lab.Host) string
	// Progress, if set, receives the state of the trial a few times a second.
	Progress func(GatewayProgress)
}

// GatewayResult is the outcome of a trial of gateways.
type GatewayResult struct {
	Ops         int            `json:"ops"`
	Answered    int            `json:"answered"`
	Unknown     int            `json:"unknown_outcomes"`
	Kinds       map[string]int `json:"answered_by_kind"`
	Events      int            `json:"watch_events"`
	Hits        uint64         `json:"hits"`        // reads that the chain answered; those of the last second before a kill are not counted
	NearbyHits  uint64         `json:"nearby_hits"` // of these: from the memory of a node, without the network
	Violations  int            `json:"violations"`
	Examples    []string       `json:"examples,omitempty"`
	Faults      map[string]int `json:"faults"`
	Repairs     int            `json:"repairs"`
	Restarts    int            `json:"restarts"` // of gateways and members that ended by themselves, because another part was away
	Crashes     []string       `json:"crashes,omitempty"`
	Gateways    int            `json:"gateways"`
	Controllers int            `json:"controllers"`
	Nodes       int            `json:"nodes"`
	Seed        uint64         `json:"seed"`
	Seconds     float64        `json:"seconds"`
}

// OK reports whether the trial found no violation.
func (r *GatewayResult) OK() bool { return r.Violations == 0 && len(r.Crashes) == 0 }

// GatewayProgress is the state of a running trial.
type GatewayProgress struct {
	Elapsed      time.Duration
	Ops, Unknown int
	Hits         uint64
	Faults       []string
}

// Parameters of the clients of gateways.
const (
	gatewayKeys    = 6
	gatewayKeyOps  = 300 * gatewayKeys
	gatewayTimeout = 6 * time.Second
	gatewayPrefix  = "chaos/"
	gatewayLocks   = 4
	// GatewayPin begins the keys of locks and elections. Gateways that place them at the first read have them before they exist.
	GatewayPin = gatewayPrefix + gatewaycheck.LocksPrefix
	// gatewaySettle is how long watches may take to come to the present after the last fault.
	gatewaySettle = 2 * time.Minute
	// maxExamples bounds the violations that are quoted.
	maxExamples = 10
)

// gatewayTrial is one trial.
type gatewayTrial struct {
	o                *GatewayOptions
	c                *cluster
	driver           *driver
	gateways         *gatewaycheck.Gateways
	began            time.Time
	ops, unknown     atomic.Int64
	hits, nearby     atomic.Uint64
	members, servers []*lab.Service
}

// Gateways brings a cluster up, with gateways and perhaps an etcd, injects faults while clients work, and checks all that
// the clients saw against the history. It removes the cluster in any case.
func Gateways(ctx context.Context, o GatewayOptions) (result *GatewayResult, err error) {
	c, err := up(ctx, &o.Setup)
	if err != nil {
		return nil, err
	}
	t := &gatewayTrial{o: &o, c: c, began: time.Now()}
	defer func() {
		if t.gateways != nil {
			t.gateways.Close()
		}
		if err == nil && !result.OK() || err != nil && ctx.Err() == nil {
			err = errors.Join(err, c.keepLogs(t.services()...))
		}
		err = c.down(ctx, err)
	}()
	if err := t.serve(ctx); err != nil {
		return nil, err
	}
	if err := c.lab.SetFault(lab.Loss, o.Loss, lab.Where{}); err != nil {
		return nil, err
	}
	t.driver = newDriver(c, o.Seed, slices.Concat(recipes, o.recipes()), o.Kinds)
	t.driver.members, t.driver.gateways = t.members, t.servers
	durable, err := c.observe(ctx, t.driver.lives)
	if err != nil {
		return nil, err
	}
	defer func() { _ = durable.end() }()
	t.driver.durable = durable
	record, err := t.suffer(ctx)
	if err != nil {
		return nil, err
	}
	return t.judge(ctx, record)
}

func (t *gatewayTrial) services() []*lab.Service { return slices.Concat(t.members, t.servers) }

// serve starts the members and gateways, and waits until every gateway answers.
func (t *gatewayTrial) serve(ctx context.Context) (err error) {
	l, addresses := t.c.lab, []string(nil)
	for _, h := range l.Plan.With(lab.RoleController) {
		if t.o.Member != nil {
			t.members = append(t.members, l.Service(h.Name, "etcd-"+h.Name, t.o.Member(l, h)))
		}
		t.servers = append(t.servers, l.Service(h.Name, "gateway-"+h.Name, t.o.Gateway(l, h)))
		addresses = append(addresses, t.o.Address(h))
	}
	for _, s := range t.services() {
		if err := s.Start(); err != nil {
			return err
		}
	}
	if t.gateways, err = gatewaycheck.Connect(addresses); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, formPatience)
	var reviver sync.WaitGroup
	reviver.Go(func() { t.revive(waiting) }) // a gateway ends if etcd has no leader yet
	err = t.gateways.Ready(waiting)
	cancel()
	reviver.Wait()
	return err
}

// revive starts services again that ended by themselves, until ctx ends.
func (t *gatewayTrial) revive(ctx context.Context) {
	for retry.Sleep(ctx, restartAfter) {
		for _, s := range t.services() {
			if !s.Alive() {
				_ = s.Start() // it is tried again
			}
		}
	}
}

// suffer runs clients while faults are injected. When it returns all faults are over.
func (t *gatewayTrial) suffer(ctx context.Context) (record *gatewaycheck.Record, err error) {
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
	if t.o.Member != nil {
		others.Go(func() { t.countHits(beside) })
	}
	w := gatewaycheck.Workload{
		Prefix: gatewayPrefix, Keys: gatewayKeys, Clients: t.o.Clients, KeyOps: gatewayKeyOps, Timeout: gatewayTimeout,
		Settle: gatewaySettle, Seed: t.o.Seed,
		Told: func(o *gatewaycheck.Op) {
			t.ops.Add(1)
			if o.Err != nil {
				t.unknown.Add(1)
			}
		},
		Ended: func() {
			err = errors.Join(<-driven, t.c.lab.ClearFaults(beside))
			others.Go(func() { t.revive(beside) })
		},
	}
	if t.o.Member != nil { // keyspaces in memory have no services for locks and elections
		w.Locks = gatewayLocks
	}
	record = w.Run(ctx, t.gateways)
	stop()
	others.Wait()
	return record, err
}

// judge checks what clients saw.
func (t *gatewayTrial) judge(ctx context.Context, record *gatewaycheck.Record) (*GatewayResult, error) {
	r := &GatewayResult{
		Seed: t.o.Seed, Gateways: len(t.servers), Controllers: t.o.Lab.Controllers, Nodes: t.o.Lab.Nodes,
		Faults: maps.Clone(t.driver.count), Repairs: t.driver.repairs, Crashes: t.driver.crashes, Restarts: t.driver.restarts,
		Hits: t.hits.Load(), NearbyHits: t.nearby.Load(), Kinds: record.Kinds(), Seconds: time.Since(t.began).Seconds(),
	}
	r.Answered, r.Unknown, r.Events = record.Counts()
	r.Ops = r.Answered + r.Unknown
	for _, s := range t.services() {
		if crash := s.Crashed(); crash != "" {
			r.Crashes = append(r.Crashes, s.Name+": "+crash)
		}
	}
	t.o.event("checking %d operations and %d events", r.Ops, r.Events)
	var members []string
	for _, h := range t.c.lab.Plan.With(lab.RoleController) {
		members = append(members, t.o.HistoryAddress(h))
	}
	reading, cancel := context.WithTimeout(ctx, formPatience)
	defer cancel()
	h, err := gatewaycheck.ReadHistoryFrom(reading, members, gatewayPrefix)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	violations := record.Check(h)
	r.Violations, r.Examples = len(violations), violations[:min(len(violations), maxExamples)]
	return r, nil
}

// Explain lists the violations.
func (r *GatewayResult) Explain() string {
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
func (t *gatewayTrial) report(ctx context.Context) {
	for t.o.Progress != nil && retry.Sleep(ctx, progressEvery) {
		p := GatewayProgress{
			Elapsed: time.Since(t.began), Ops: int(t.ops.Load()), Unknown: int(t.unknown.Load()), Hits: t.hits.Load(),
		}
		t.driver.mu.Lock()
		for _, f := range t.driver.active {
			p.Faults = append(p.Faults, f.String())
		}
		t.driver.mu.Unlock()
		t.o.Progress(p)
	}
}

// countHits sums the gateways' counters, which begin anew when a gateway is started.
func (t *gatewayTrial) countHits(ctx context.Context) {
	last := make(map[string]gatewaycheck.Hits)
	for retry.Sleep(ctx, time.Second) {
		for _, h := range t.c.lab.Plan.With(lab.RoleController) {
			hits, err := gatewaycheck.ReadHits(ctx, t.o.Address(h))
			if err != nil {
				continue // it is away
			}
			before := last[h.Name]
			if hits.All < before.All {
				before = gatewaycheck.Hits{}
			}
			t.hits.Add(hits.All - before.All)
			t.nearby.Add(hits.Nearby - before.Nearby)
			last[h.Name] = hits
		}
	}
}
