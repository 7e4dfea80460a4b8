package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// ChurnOptions describe a trial that creates and deletes far more keys than the nodes have room for.
type ChurnOptions struct {
	Setup
	Objects int     // that a node has room for
	Times   float64 // keys to create, as a multiple of Objects
	Rate    float64 // keys to create in a second, at most; 0: as many as the clients can
	// KillEvery is the time between two kills of a node's agent, one node after the other; 0: none is killed. The agent is
	// started again at once. The next one goes on with the collection that the kill interrupted.
	KillEvery time.Duration
	// Progress, if set, receives the keys created so far, about once a second.
	Progress func(keys int)
}

// ChurnResult is the outcome of such a trial.
type ChurnResult struct {
	Keys         int     `json:"keys"` // created and deleted
	Full         int     `json:"full"` // writes that found no room
	Linearizable bool    `json:"linearizable"`
	Ops          int     `json:"ops"`
	Unknown      int     `json:"unknown_outcomes"`
	Killed       int     `json:"agents_killed"`
	Objects      int     `json:"objects"` // that a node has room for
	Seconds      float64 `json:"seconds"`
	Nodes        int     `json:"nodes"`
	Controllers  int     `json:"controllers"`
	Shards       int     `json:"shards"`
	Replicas     int     `json:"replicas"`

	violations []history.Violation
	undecided  []string
}

// Parameters of the clients.
const (
	churnWorkers = 4
	// churnBatch is how many keys a worker creates, reads and deletes together. Some of them come back in the next batches:
	// they are checked over churnRounds batches.
	churnBatch   = 128
	churnBack    = 4
	churnRounds  = 16
	churnTimeout = 30 * time.Second
)

// OK reports whether no write found a full table and the reads saw what was written.
func (r *ChurnResult) OK() bool { return r.Full == 0 && r.Linearizable }

// Explain lists the violations.
func (r *ChurnResult) Explain() string {
	var text strings.Builder
	verdict := history.Verdict{Ops: r.Ops, Keys: r.Keys, Unknown: r.Unknown, Violations: r.violations, Undecided: r.undecided}
	_ = verdict.Write(&text) // a builder never fails
	return text.String()
}

// Churn brings a cluster up, creates and deletes keys, and checks what the clients saw. It removes the cluster in any case.
func Churn(ctx context.Context, o ChurnOptions) (*ChurnResult, error) {
	return trial(ctx, &o.Setup, func(c *cluster) (*ChurnResult, error) { return churnOn(ctx, c, &o) })
}

// churnOn is the trial on a cluster that is up.
func churnOn(ctx context.Context, c *cluster, o *ChurnOptions) (*ChurnResult, error) {
	kv, err := c.client(client.Options{Timeout: churnTimeout, Window: churnBatch, ReadFrom: client.Spread})
	if err != nil {
		return nil, err
	}
	defer kv.Close()
	t := &churn{o: o, cluster: c, client: kv, began: time.Now(), result: &ChurnResult{
		Linearizable: true, Objects: o.Objects, Nodes: o.Lab.Nodes, Controllers: o.Lab.Controllers, Replicas: o.Replicas,
		Shards: c.follower.Map().Shards(),
	}}
	if err := t.run(ctx); err != nil {
		return nil, err
	}
	t.result.Seconds = time.Since(t.began).Seconds()
	return t.result, nil
}

// churn is one trial.
type churn struct {
	o       *ChurnOptions
	cluster *cluster
	client  *client.Client
	began   time.Time

	mu     sync.Mutex
	result *ChurnResult
}

func (t *churn) run(ctx context.Context) error {
	wanted := int(t.o.Times * float64(t.o.Objects) / churnWorkers)
	group, ctx := errgroup.WithContext(ctx)
	beside, cancel := context.WithCancel(ctx)
	if t.o.Progress != nil {
		go t.report(beside)
	}
	killed := make(chan error, 1)
	go func() { killed <- t.killAgents(beside) }()
	for i := range churnWorkers {
		group.Go(func() error {
			w := &churner{t: t, number: i}
			for w.created < wanted {
				if err := w.period(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	cancel()
	return errors.Join(err, <-killed)
}

// killAgents kills the agent of one node after the other, and starts it again, until ctx ends.
func (t *churn) killAgents(ctx context.Context) error {
	if t.o.KillEvery == 0 {
		return nil
	}
	nodes := t.cluster.lab.Plan.With(lab.RoleNode)
	for i := 0; retry.Sleep(ctx, t.o.KillEvery); i++ {
		node, whole := nodes[i%len(nodes)].Name, context.WithoutCancel(ctx)
		if err := t.cluster.lab.KillAgent(whole, node); err != nil {
			return err
		}
		if err := t.cluster.lab.StartAgent(whole, node); err != nil {
			return err
		}
		t.mu.Lock()
		t.result.Killed++
		t.mu.Unlock()
	}
	return nil
}

func (t *churn) report(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			t.mu.Lock()
			keys := t.result.Keys
			t.mu.Unlock()
			t.o.Progress(keys)
		}
	}
}

// churner is one worker, with a reader beside it.
type churner struct {
	t       *churn
	number  int
	periods int
	created int

	mu  sync.Mutex
	ops []history.Op // of this period
}

// period runs some batches and checks their history.
func (w *churner) period(ctx context.Context) error {
	w.ops = w.ops[:0]
	full := 0
	created := churnBack
	for round := range churnRounds {
		n, err := w.batch(ctx, round)
		full += n
		if err != nil {
			return err
		}
		created += churnBatch - churnBack
		if err := w.pace(ctx, w.created+created); err != nil {
			return err
		}
	}
	w.periods++
	w.created += created
	v := history.Check(w.ops, chaosPerKey)
	w.t.mu.Lock()
	defer w.t.mu.Unlock()
	r := w.t.result
	r.Keys, r.Ops, r.Unknown, r.Full = r.Keys+created, r.Ops+v.Ops, r.Unknown+v.Unknown, r.Full+full
	r.Linearizable = r.Linearizable && v.Linearizable()
	r.violations, r.undecided = append(r.violations, v.Violations...), append(r.undecided, v.Undecided...)
	return nil
}

// pace waits until the worker may have created so many keys.
func (w *churner) pace(ctx context.Context, created int) error {
	if w.t.o.Rate <= 0 {
		return nil
	}
	due := time.Duration(float64(created*churnWorkers) / w.t.o.Rate * float64(time.Second))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(due - time.Since(w.t.began)):
		return nil
	}
}

// batch creates keys, reads them, deletes them and reads them again. Another reader reads all the time.
func (w *churner) batch(ctx context.Context, round int) (full int, err error) {
	keys := make([]string, churnBatch)
	for i := range keys {
		keys[i] = fmt.Sprintf("churn-%d-%d-%d-%d", w.number, w.periods, round, i)
		if i < churnBack {
			keys[i] = fmt.Sprintf("churn-%d-%d-back-%d", w.number, w.periods, i)
		}
	}
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for reading.Err() == nil {
			_ = w.all(ctx, history.Get, 1, keys, "")
		}
	})
	for _, kind := range []history.Kind{history.CAS, history.Get, history.Delete, history.Get} {
		full += w.all(ctx, kind, 0, keys, fmt.Sprintf("round %d", round))
	}
	stop()
	reader.Wait()
	return full, ctx.Err()
}

// all runs one operation on each key, notes them, and returns how many found no room.
func (w *churner) all(ctx context.Context, kind history.Kind, reader int, keys []string, value string) (full int) {
	ops, asked := make([]history.Op, len(keys)), make([]client.Op, len(keys))
	call := int64(time.Since(w.t.began))
	for i, key := range keys {
		ops[i] = history.Op{Client: 2*w.number + reader, Kind: kind, Key: key, Call: call}
		if kind == history.CAS { // the key is not there
			ops[i].Value = value
		}
		asked[i] = startable(&ops[i])
	}
	outcomes := w.t.client.Do(ctx, asked)
	returned := int64(time.Since(w.t.began))
	for i := range ops {
		if errors.Is(outcomes[i].Err, client.ErrFull) {
			full++
		}
		ops[i].Return, ops[i].Result = returned, resultOf(&ops[i], outcomes[i].Result, outcomes[i].Err)
	}
	w.mu.Lock()
	w.ops = append(w.ops, ops...)
	w.mu.Unlock()
	return full
}
