package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// ChaosOptions describe a trial with many faults.
type ChaosOptions struct {
	Setup
	For     time.Duration
	Seed    uint64  // of faults and of clients' operations; it does not cover the kernel's loss and scheduling
	Clients int     // concurrent clients, which write and read
	Loss    float64 // loss on all links in percent, during the whole trial
	// share of the time during which every agent and controller is stopped in short pauses, besides the faults
	Stopped float64
	// Kinds are the kinds of faults to inject; empty: all.
	Kinds []string
	// Progress, if set, receives the state of the trial a few times a second.
	Progress func(ChaosProgress)
}

// ChaosResult is the outcome of a trial with many faults.
type ChaosResult struct {
	Ops               int            `json:"ops"`
	Faults            map[string]int `json:"faults"`
	Linearizable      bool           `json:"linearizable"`
	LostAcknowledged  int            `json:"lost_acknowledged"`
	LongestWriteGapMs float64        `json:"longest_write_gap_ms"`
	LongestReadGapMs  float64        `json:"longest_read_gap_ms"`
	Seed              uint64         `json:"seed"`
	Seconds           float64        `json:"seconds"`
	Controllers       int            `json:"controllers"`
	Nodes             int            `json:"nodes"`
	Shards            int            `json:"shards"`
	Replicas          int            `json:"replicas"`
	Repairs           int            `json:"repairs"` // number of times that all chains became whole after a fault
	Changes           uint64         `json:"changes"` // changes of the cluster's durable state
	Keys              int            `json:"keys"`
	Acknowledged      int            `json:"acknowledged_writes"`
	Unknown           int            `json:"unknown_outcomes"`
	Bundled           uint64         `json:"bundled"` // answers that came in bundles
	// fewest complete copies of a shard while two members of its chain were live
	LeastCopies int `json:"least_copies"`
	Suspected   int `json:"suspected"` // nodes fenced, rightly or wrongly
	Pauses      int `json:"pauses"`    // short pauses of all processes
	// changes of the durable state that least_copies and suspected do not cover
	MissedChanges uint64   `json:"missed_changes"`
	Crashes       []string `json:"crashes,omitempty"` // agents and controllers that ended unexpectedly
	Undecided     []string `json:"undecided,omitempty"`

	violations []history.Violation
	losses     []loss
}

// ChaosProgress is the state of a running trial.
type ChaosProgress struct {
	Elapsed       time.Duration
	Ops           int
	Reads, Writes int // successful operations
	Faults        []string
	Repairs       int
	State         string // state of the chains; empty: all whole
	Gaps          [2]time.Duration
}

// Parameters of the clients: bounded histories of single keys are cheap to check.
const (
	chaosKeys     = 48
	chaosKeyOps   = 300
	chaosPause    = 4 * time.Millisecond
	chaosTimeout  = 5 * time.Second
	chaosPerKey   = time.Minute
	notableGap    = 100 * time.Millisecond
	wholePatience = time.Minute // wait after the last fault
	progressEvery = 250 * time.Millisecond
)

// OK reports whether the trial found no violation.
func (r *ChaosResult) OK() bool {
	return r.Linearizable && r.LostAcknowledged == 0 && len(r.Crashes) == 0 && !r.TooFewCopies()
}

// TooFewCopies reports whether a shard had only one complete copy while two members of its chain
// were live.
func (r *ChaosResult) TooFewCopies() bool { return r.LeastCopies < min(2, r.Replicas) }

// Explain lists the violations.
func (r *ChaosResult) Explain() string {
	var text strings.Builder
	verdict := history.Verdict{Ops: r.Ops, Keys: r.Keys, Unknown: r.Unknown, Violations: r.violations,
		Undecided: r.Undecided}
	_ = verdict.Write(&text) // a builder never fails
	const shown = 10
	for i, l := range r.losses {
		if i == shown {
			fmt.Fprintf(&text, "and %d keys more\n", len(r.losses)-shown)
			break
		}
		fmt.Fprintln(&text, l)
	}
	if r.TooFewCopies() {
		fmt.Fprintf(&text, "a shard was left with %d complete copies while two members of its chain were live\n",
			r.LeastCopies)
	}
	if len(r.Crashes) > 0 {
		fmt.Fprintf(&text, "these ended unexpectedly: %s\n", strings.Join(r.Crashes, ", "))
	}
	return text.String()
}

// Chaos brings a cluster up, injects faults while clients work, and checks the clients' history. It
// removes the cluster in any case.
func Chaos(ctx context.Context, o ChaosOptions) (*ChaosResult, error) {
	return trial(ctx, &o.Setup, func(c *cluster) (*ChaosResult, error) { return chaosOn(ctx, c, &o) })
}

// chaosOn is the trial on a cluster that is up.
func chaosOn(ctx context.Context, c *cluster, o *ChaosOptions) (_ *ChaosResult, err error) {
	if err := c.lab.SetFault(lab.Loss, o.Loss, lab.Where{}); err != nil {
		return nil, err
	}
	t := &chaos{o: o, c: c, driver: newDriver(c, o.Seed, recipes, o.Kinds), ledger: newLedger(), began: time.Now()}
	if t.durable, err = c.observe(ctx, t.driver.lives); err != nil {
		return nil, err
	}
	t.driver.durable = t.durable
	defer func() { _ = t.durable.end() }()
	t.result = &ChaosResult{
		Seed: o.Seed, Replicas: o.Replicas, Nodes: o.Lab.Nodes, Controllers: o.Lab.Controllers,
		Shards: c.follower.Map().Shards(), Linearizable: true,
	}
	if err := t.suffer(ctx); err != nil {
		return nil, err
	}
	if err := t.recover(ctx); err != nil {
		return nil, err
	}
	t.result.Suspected, t.result.LeastCopies, t.result.MissedChanges = t.durable.seen()
	return t.result, errors.Join(t.durable.end(), ctx.Err())
}

// chaos is one trial.
type chaos struct {
	o       *ChaosOptions
	c       *cluster
	driver  *driver
	ledger  *ledger
	durable *durable
	result  *ChaosResult
	began   time.Time
	ops     atomic.Int64
	writes  *gap
	reads   *gap
}

// suffer runs clients while faults are injected.
func (t *chaos) suffer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.For)
	defer cancel()
	shared, err := t.c.client(client.Options{Timeout: chaosTimeout, ReadFrom: client.Spread})
	if err != nil {
		return err
	}
	defer shared.Close()
	defer func() { t.result.Bundled = shared.Traffic().Bundled }()
	gathering, stop := context.WithCancel(context.WithoutCancel(ctx)) // ends after the last operation
	defer stop()
	together := gather(gathering, shared, chaosPause)
	var stores []history.Store
	for i := range t.o.Clients {
		if i%2 == 0 {
			stores = append(stores, watched{together, t})
			continue
		}
		kv, err := t.c.client(client.Options{Timeout: chaosTimeout, ReadFrom: client.Spread})
		if err != nil {
			return err
		}
		defer kv.Close()
		stores = append(stores, watched{Store{kv}, t})
	}
	t.writes, t.reads = newGap(notableGap, t.tellGap("write")), newGap(notableGap, t.tellGap("read"))
	driven := make(chan error, 1)
	go func() {
		driven <- t.drive(ctx)
		cancel()
	}()
	go t.report(ctx)
	w := history.Workload{
		Clients: t.o.Clients, Keys: chaosKeys, KeyOps: chaosKeyOps, For: t.o.For, Seed: t.o.Seed, Prefix: "chaos",
		Pause: chaosPause, Closed: t.check,
	}
	w.Run(ctx, stores)
	r := t.result
	r.LongestWriteGapMs, r.LongestReadGapMs = milliseconds(t.writes.end()), milliseconds(t.reads.end())
	r.Seconds = time.Since(t.began).Seconds()
	err = <-driven
	r.Faults, r.Repairs, r.Crashes = maps.Clone(t.driver.count), t.driver.repairs, t.driver.crashes
	return err
}

// drive injects faults and pauses processes until ctx ends. If one of the two fails, it stops the
// other.
func (t *chaos) drive(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.driver.run(ctx) })
	group.Go(func() error {
		return t.driver.stops.pauses(ctx, slices.Concat(t.driver.nodes, t.driver.controllers), t.o.Stopped, t.o.Seed)
	})
	err := group.Wait()
	_, t.result.Pauses = t.driver.stops.sum()
	return err
}

// check checks the operations on keys that no client uses any more. It checks key by key, so that
// it uses at most one core.
func (t *chaos) check(ops []history.Op) {
	t.ledger.enter(ops)
	keys := map[string][]history.Op{}
	for _, op := range ops {
		keys[op.Key] = append(keys[op.Key], op)
	}
	for _, one := range keys {
		t.checkKey(one)
	}
}

func (t *chaos) checkKey(ops []history.Op) {
	v := history.Check(ops, chaosPerKey)
	r := t.result
	r.Ops, r.Keys, r.Unknown = r.Ops+v.Ops, r.Keys+v.Keys, r.Unknown+v.Unknown
	r.Linearizable = r.Linearizable && v.Linearizable()
	r.violations, r.Undecided = append(r.violations, v.Violations...), append(r.Undecided, v.Undecided...)
	if !v.Linearizable() {
		t.o.event("NOT linearizable: %d keys, %d undecided", len(v.Violations), len(v.Undecided))
	}
}

// recover clears loss, waits until all chains are whole, and checks that no acknowledged write is
// missing.
func (t *chaos) recover(ctx context.Context) error {
	if err := t.c.lab.ClearFaults(ctx); err != nil {
		return err
	}
	whole, cancel := context.WithTimeout(ctx, wholePatience)
	defer cancel()
	if err := t.c.await(whole, "all chains to be whole again", t.c.whole); err != nil {
		return err
	}
	kv, err := t.c.client(client.Options{Timeout: chaosTimeout})
	if err != nil {
		return err
	}
	defer kv.Close()
	r := t.result
	r.Acknowledged, r.Changes = t.ledger.acknowledged(), t.c.follower.Map().Version
	t.o.event("reading %d keys back from every node that has them", len(t.ledger.keys))
	r.LostAcknowledged, r.losses, err = t.ledger.audit(ctx, kv)
	return err
}

// watched is a store whose successes are recorded.
type watched struct {
	history.Store
	t *chaos
}

// Do implements [history.Store].
func (w watched) Do(ctx context.Context, op *history.Op) history.Result {
	r := w.Store.Do(ctx, op)
	w.t.ops.Add(1)
	switch {
	case r.Outcome == history.Unknown:
	case op.Kind == history.Get:
		w.t.reads.success()
	case r.Outcome == history.OK:
		w.t.writes.success()
	}
	return r
}

func (t *chaos) tellGap(what string) func(time.Time, time.Duration) {
	return func(_ time.Time, long time.Duration) {
		t.o.event("no %s of any client for %v", what, long.Round(time.Millisecond))
	}
}

// report reports the progress until ctx ends.
func (t *chaos) report(ctx context.Context) {
	if t.o.Progress == nil {
		return
	}
	ticks := time.NewTicker(progressEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			t.o.Progress(t.progress())
		}
	}
}

func (t *chaos) progress() ChaosProgress {
	p := ChaosProgress{Elapsed: time.Since(t.began), Ops: int(t.ops.Load()), Reads: t.reads.successes(),
		Writes: t.writes.successes()}
	p.Gaps = [2]time.Duration{t.writes.soFar(), t.reads.soFar()}
	if m := t.c.follower.Map(); !t.c.whole(m) {
		p.State = t.c.describe(m)
	}
	t.driver.mu.Lock()
	defer t.driver.mu.Unlock()
	p.Repairs = t.driver.repairs
	for _, f := range t.driver.active {
		p.Faults = append(p.Faults, f.String())
	}
	return p
}
