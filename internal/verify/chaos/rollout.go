package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/netcraq/netcraq/internal/node/agent"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// RolloutOptions describe a trial that replaces the agents of all nodes one by one, as a rolling update does. Each ends
// while chains change: a moment before, another node is drained or taken back.
type RolloutOptions struct {
	Setup
	Rounds           int           // times that each agent is replaced
	Away, Rest       time.Duration // least time between the end of an agent and the next one, and after that
	Kill             bool          // agents are killed, and announce nothing
	Still            bool          // no node is drained
	Seed             uint64        // of the clients' operations and of these moments
	Writers, Readers int
	Objects          int // stored before the trial; clients write and read them
	// Drain drains a node, or takes it back.
	Drain func(ctx context.Context, l *lab.Lab, node string, out bool) error
}

// RolloutResult is the outcome of such a trial.
type RolloutResult struct {
	Replaced       int     `json:"replaced"`         // agents
	Released       int     `json:"released"`         // of these, by the leader
	LongestWriteMs float64 `json:"longest_write_ms"` // longest time of one write, from its call to its answer
	LongestReadMs  float64 `json:"longest_read_ms"`
	FailedWrites   int     `json:"failed_writes"` // without a known outcome within the client's timeout
	FailedReads    int     `json:"failed_reads"`
	Suspected      int     `json:"suspected"`      // nodes removed from their chains
	LongestEndMs   float64 `json:"longest_end_ms"` // longest time that an agent took to end
	Changes        uint64  `json:"changes"`        // of the cluster's durable state
	Drains         int     `json:"drains"`         // drained, or taken back
	LeastCopies    int     `json:"least_copies"`   // fewest complete copies of a shard in any durable state
	Linearizable   bool    `json:"linearizable"`
	Whole          bool    `json:"whole"` // all chains have all members in the end
	Writes         int     `json:"writes"`
	Reads          int     `json:"reads"`
	Seconds        float64 `json:"seconds"`
	Kill           bool    `json:"kill"`
	Nodes          int     `json:"nodes"`
	Controllers    int     `json:"controllers"`
	Shards         int     `json:"shards"`
	Replicas       int     `json:"replicas"`
	Objects        int     `json:"objects"`
	Writers        int     `json:"writers"`
	Readers        int     `json:"readers"`
	Seed           uint64  `json:"seed"`

	verdict *history.Verdict
	lacking string
}

// OK reports whether the cluster kept its guarantees. The figures report the cost.
func (r *RolloutResult) OK() bool {
	return r.Linearizable && r.Whole && r.FailedWrites+r.FailedReads == 0
}

// Explain lists the violations.
func (r *RolloutResult) Explain() string {
	var text strings.Builder
	_ = r.verdict.Write(&text) // a builder never fails
	if !r.Whole {
		fmt.Fprintf(&text, "not whole %v after the last agent: %s\n", wholePatience, r.lacking)
	}
	return text.String()
}

// Rollout runs the trial.
func Rollout(ctx context.Context, o RolloutOptions) (*RolloutResult, error) {
	return trial(ctx, &o.Setup, func(c *cluster) (*RolloutResult, error) {
		r := &rollout{o: &o, c: c, began: time.Now(), rng: rand.New(rand.NewPCG(o.Seed, 0)), result: &RolloutResult{
			Kill: o.Kill, Nodes: o.Lab.Nodes, Controllers: o.Lab.Controllers, Shards: o.Lab.Shards, Replicas: o.Replicas,
			Objects: o.Objects, Writers: o.Writers, Readers: o.Readers, Seed: o.Seed,
		}}
		if err := r.run(ctx); err != nil {
			return nil, err
		}
		return r.result, nil
	})
}

// rollout is one trial.
type rollout struct {
	o      *RolloutOptions
	c      *cluster
	began  time.Time
	rng    *rand.Rand
	result *RolloutResult
	// drained is the node that is drained now; empty: none.
	drained string
}

func (r *rollout) run(ctx context.Context) error {
	durable, err := r.c.observe(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = durable.end() }()
	clients, err := r.c.newWork(ctx, r.o.Objects)
	if err != nil {
		return err
	}
	defer clients.close()
	if !r.c.becomesWhole(ctx, wholePatience) {
		return fmt.Errorf("the cluster did not become whole: %s", r.c.describe(r.c.follower.Map()))
	}
	before := durable.changes()
	working, stop := context.WithCancel(ctx)
	defer stop()
	clients.start(working, r.o.Writers, r.o.Readers, r.o.Seed)
	if err = r.replaceAll(ctx); err == nil {
		r.result.Whole = r.c.becomesWhole(ctx, wholePatience)
		r.result.lacking = r.c.describe(r.c.follower.Map())
	}
	stop()
	clients.done.Wait()
	if err != nil {
		return err
	}
	if err := durable.end(); err != nil {
		return err
	}
	r.result.Changes = durable.changes() - before
	if err := r.countReleased(); err != nil {
		return err
	}
	r.judge(durable, clients)
	return ctx.Err()
}

// replaceAll replaces the agents one by one.
func (r *rollout) replaceAll(ctx context.Context) error {
	nodes := r.c.lab.Plan.With(lab.RoleNode)
	for range r.o.Rounds {
		for i, h := range nodes {
			if err := r.stir(ctx, nodes[(i+1)%len(nodes)].Name); err != nil {
				return err
			}
			if err := r.replace(ctx, h.Name); err != nil {
				return err
			}
		}
	}
	if r.drained == "" {
		return nil
	}
	return r.o.Drain(ctx, r.c.lab, r.drained, false)
}

// stir lets chains change at the end of an agent: it takes the drained node back, or else drains one.
func (r *rollout) stir(ctx context.Context, node string) error {
	if r.o.Still {
		return nil
	}
	out := r.drained == ""
	if !out {
		node = r.drained
	}
	for {
		err := r.o.Drain(ctx, r.c.lab, node, out)
		if err == nil {
			break
		}
		if !retry.Sleep(ctx, drainAgain) { // such as: a node is suspected now
			return err
		}
	}
	r.drained = ""
	if out {
		r.drained = node
	}
	r.result.Drains++
	retry.Sleep(ctx, time.Duration(r.rng.Int64N(int64(stirFor))))
	return ctx.Err()
}

const (
	stirFor    = 500 * time.Millisecond // longest time between the begin of a drain and the end of an agent
	drainAgain = 100 * time.Millisecond
)

// replace ends the agent of a node and starts another one.
func (r *rollout) replace(ctx context.Context, node string) error {
	begun := time.Now()
	end := r.c.lab.EndAgent
	if r.o.Kill {
		end = r.c.lab.KillAgent
	}
	if err := end(ctx, node); err != nil {
		return err
	}
	took := time.Since(begun)
	r.result.LongestEndMs = max(r.result.LongestEndMs, milliseconds(took))
	retry.Sleep(ctx, r.o.Away)
	if err := r.c.lab.StartAgent(ctx, node); err != nil {
		return err
	}
	r.result.Replaced++
	r.o.event("the agent of %s is replaced, in %.1f s; it ended in %d ms", node, time.Since(begun).Seconds(), took.Milliseconds())
	retry.Sleep(ctx, r.o.Rest)
	return ctx.Err()
}

// countReleased counts the agents that the leader released, by their logs.
func (r *rollout) countReleased() error {
	for _, h := range r.c.lab.Plan.With(lab.RoleNode) {
		text, err := os.ReadFile(r.c.lab.LogFile(h.Name))
		if err != nil {
			return err
		}
		r.result.Released += bytes.Count(text, []byte(agent.ReleasedMessage))
	}
	return nil
}

func (r *rollout) judge(d *durable, clients *work) {
	o := r.result
	o.Suspected, o.LeastCopies, _ = d.seen()
	writes, reads := clients.counters(history.Put), clients.counters(history.Get)
	o.Writes, o.FailedWrites, o.Reads, o.FailedReads = writes.done, writes.failed, reads.done, reads.failed
	ops := clients.history()
	for i := range ops {
		took := milliseconds(time.Duration(ops[i].Return - ops[i].Call))
		switch {
		case ops[i].Client < 0: // before the trial
		case ops[i].Kind == history.Put:
			o.LongestWriteMs = max(o.LongestWriteMs, took)
		default:
			o.LongestReadMs = max(o.LongestReadMs, took)
		}
	}
	o.Seconds = time.Since(r.began).Seconds()
	r.o.event("checking %d operations", len(ops))
	o.verdict = history.Check(ops, chaosPerKey)
	o.Linearizable = o.verdict.Linearizable()
}
