package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/verify/lab"
)

// RejoinOptions describe a trial in which the last node of the lab is removed from its chains with
// its state intact, and rejoins.
type RejoinOptions struct {
	Setup
	Objects    int
	ValueBytes int
	Changed    float64       // share of the objects written while it is away
	Away       time.Duration // minimum time that it is away
}

// RejoinResult is the outcome of a rejoin trial. The full copy is that of the same node after it
// lost all state.
type RejoinResult struct {
	WholeAgainS   float64 `json:"whole_again_s"` // from the return of the node until all chains have all members
	BytesCopied   uint64  `json:"bytes_copied"`
	FullCopyS     float64 `json:"full_copy_s"` // the same after the start of an empty agent
	FullCopyBytes uint64  `json:"full_copy_bytes"`
	AwayS         float64 `json:"away_s"`
	Objects       int     `json:"objects"`
	Changed       int     `json:"changed"` // objects written while it was away
	ValueBytes    int     `json:"value_bytes"`
	Shards        int     `json:"shards"`
	ShardsLeft    int     `json:"shards_left"` // shards from whose chains the node was removed
	FillS         float64 `json:"fill_s"`
}

// rejoinPatience bounds the wait for each step.
const rejoinPatience = 5 * time.Minute

// Rejoin runs the trial.
func Rejoin(ctx context.Context, o RejoinOptions) (result *RejoinResult, err error) {
	o.Formed = o.Replicas
	c, err := up(ctx, &o.Setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = c.down(ctx, err) }()
	r := &rejoin{o: &o, c: c, victim: fmt.Sprintf("n%d", o.Lab.Nodes)}
	return r.run(ctx)
}

type rejoin struct {
	o      *RejoinOptions
	c      *cluster
	victim string
}

func (r *rejoin) run(ctx context.Context) (*RejoinResult, error) {
	value := make([]byte, r.o.ValueBytes)
	filled, err := r.c.fill(ctx, r.o.Objects, value, nil)
	if err == nil {
		err = r.c.settle(ctx)
	}
	if err != nil {
		return nil, err
	}
	result := &RejoinResult{
		Objects: r.o.Objects, Changed: int(r.o.Changed * float64(r.o.Objects)), ValueBytes: r.o.ValueBytes,
		Shards: r.c.follower.Map().Shards(), FillS: filled.Seconds(), ShardsLeft: r.servedByVictim(),
	}
	result.AwayS, err = r.leave(ctx, result.Changed, value)
	if err == nil {
		result.WholeAgainS, result.BytesCopied, err = r.copied(ctx, r.comeBack)
	}
	if err != nil {
		return nil, err
	}
	r.o.event("%s is a full member again after %.2f s, %d bytes copied", r.victim, result.WholeAgainS, result.BytesCopied)
	if err := r.lose(ctx); err != nil {
		return nil, err
	}
	result.FullCopyS, result.FullCopyBytes, err = r.copied(ctx, func(ctx context.Context) error {
		return r.c.lab.SwitchOn(ctx, r.victim)
	})
	return result, err
}

func (r *rejoin) servedByVictim() int {
	m := r.c.follower.Map()
	served := 0
	for shard := range m.ByShard {
		if slices.Contains(m.Names(m.Chain(uint16(shard))), r.victim) {
			served++
		}
	}
	return served
}

// leave stops the node and partitions it until it is in no chain, the objects are written, and the
// time has passed.
func (r *rejoin) leave(ctx context.Context, changed int, value []byte) (awayS float64, err error) {
	began := time.Now()
	var others []string
	for _, h := range r.c.lab.Plan.Hosts {
		if h.Name != r.victim {
			others = append(others, h.Name)
		}
	}
	if err := r.c.lab.Partition(ctx, lab.Partition{Groups: [][]string{{r.victim}, others}}); err != nil {
		return 0, err
	}
	if err := r.c.lab.Pause(r.victim); err != nil {
		return 0, err
	}
	if err := r.awaitOut(ctx); err != nil {
		return 0, err
	}
	kv, err := r.c.client(client.Options{Timeout: clientTimeout, Window: fillWindow})
	if err != nil {
		return 0, err
	}
	defer kv.Close()
	value = []byte(strings.Repeat("x", len(value)))
	apart := max(1, r.o.Objects/max(1, changed))
	for done := 0; done < changed; done += fillPortion {
		ops := make([]client.Op, min(fillPortion, changed-done))
		for i := range ops {
			ops[i] = client.PutOp(objectKey((done+i)*apart), value)
		}
		for _, outcome := range kv.Do(ctx, ops) {
			if outcome.Err != nil {
				return 0, fmt.Errorf("write while the node is away: %w", outcome.Err)
			}
		}
	}
	retry.Sleep(ctx, max(0, r.o.Away-time.Since(began)))
	return time.Since(began).Seconds(), ctx.Err()
}

// awaitOut waits until the node is in no chain.
func (r *rejoin) awaitOut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rejoinPatience)
	defer cancel()
	return r.c.await(ctx, "the node to be in no chain", func(*topology.Map) bool { return r.servedByVictim() == 0 })
}

func (r *rejoin) comeBack(ctx context.Context) error {
	if err := r.c.lab.Partition(ctx); err != nil {
		return err
	}
	return r.c.lab.Resume(r.victim)
}

// lose removes the node's state.
func (r *rejoin) lose(ctx context.Context) error {
	if err := r.c.settle(ctx); err != nil {
		return err
	}
	if err := r.c.lab.PowerOff(ctx, r.victim); err != nil {
		return err
	}
	return r.awaitOut(ctx)
}

// copied runs begin and returns the time until all chains are whole, and the bytes copied.
func (r *rejoin) copied(ctx context.Context, begin func(context.Context) error) (seconds float64,
	bytes uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, rejoinPatience)
	defer cancel()
	before, err := r.o.Leader(ctx, r.c.lab)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := begin(ctx); err != nil {
		return 0, 0, err
	}
	if err := r.c.await(ctx, "all chains to be whole", r.c.whole); err != nil {
		return 0, 0, err
	}
	seconds = time.Since(began).Seconds()
	after, err := r.o.Leader(ctx, r.c.lab)
	return seconds, after.Copied - before.Copied, err
}
