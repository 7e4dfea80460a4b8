package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// JoinOptions describe a trial in which the last node of the lab joins a cluster with many objects.
// The node has to be idle.
type JoinOptions struct {
	Setup
	Objects    int
	ValueBytes int
}

// JoinResult is the outcome of a join trial.
type JoinResult struct {
	// WritePauseMs is the longest time without an acknowledged write, of the shard for which it was longest.
	WritePauseMs       float64 `json:"write_pause_ms"`
	WritePauseMedianMs float64 `json:"write_pause_median_ms"` // the median over shards
	// BeforeMs is the same as write_pause_ms before the node joined: the effect of the machine's scheduling alone.
	BeforeMs      float64 `json:"write_gap_before_ms"`
	PauseMs       float64 `json:"pause_ms"` // pause of each client between two operations, included in every gap
	ShardsWatched int     `json:"shards_watched"`
	ReadGapMs     float64 `json:"read_gap_ms"` // longest time without an answer to reads of a shard during the join
	CopyS         float64 `json:"copy_s"`      // from the first learner to the last complete one
	CopiedMB      float64 `json:"copied_mb"`
	MBPerS        float64 `json:"mb_per_s"`
	Objects       int     `json:"objects"`
	ValueBytes    int     `json:"value_bytes"`
	Shards        int     `json:"shards"`
	ShardsCopied  int     `json:"shards_copied"`
	FillS         float64 `json:"fill_s"`
	Nodes         int     `json:"nodes"` // including the one that joined
	WritesPerS    float64 `json:"writes_per_s"`
	ReadsPerS     float64 `json:"reads_per_s"`
}

// Parameters of the clients of a join trial.
const (
	joinWriters  = 16
	joinReaders  = 8
	joinPause    = 5 * time.Millisecond
	joinPatience = 10 * time.Minute
)

// Join runs the trial.
func Join(ctx context.Context, o JoinOptions) (result *JoinResult, err error) {
	nodes := o.Lab.Nodes
	newcomer := fmt.Sprintf("n%d", nodes)
	o.Lab.Idle, o.Formed = []string{newcomer}, min(o.Replicas, nodes-1)
	c, err := up(ctx, &o.Setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = c.down(ctx, err) }()
	j := &join{o: &o, c: c, newcomer: newcomer}
	if err := j.run(ctx); err != nil {
		return nil, err
	}
	return j.judge(), nil
}

// join is one trial.
type join struct {
	o        *JoinOptions
	c        *cluster
	newcomer string
	probes   *probes
	writers  []*probe
	readers  []*probe
	filled   time.Duration
	copying  *copying
	copied   uint64 // bytes copied

	joined, ended time.Duration // times since the probes started
}

func (j *join) run(ctx context.Context) error {
	var err error
	if j.filled, err = j.c.fill(ctx, j.o.Objects, make([]byte, j.o.ValueBytes), nil); err != nil {
		return err
	}
	kv, err := j.c.client(client.Options{Timeout: clientTimeout, Window: fillWindow})
	if err != nil {
		return err
	}
	defer kv.Close()
	j.probes = newProbes(kv)
	if err := j.station(ctx); err != nil {
		return err
	}
	j.probes.start(ctx, joinPause)
	defer j.probes.halt()
	if !retry.Sleep(ctx, quiet) {
		return ctx.Err()
	}
	j.copying = newCopying(j.probes.now)
	stop := j.c.follower.Watch(j.copying.note)
	defer stop()
	j.joined = j.probes.now()
	if err := j.c.lab.SwitchOn(ctx, j.newcomer); err != nil {
		return err
	}
	if err := j.complete(ctx); err != nil {
		return err
	}
	j.ended = j.probes.now()
	j.probes.halt()
	return j.probes.check()
}

func (j *join) station(ctx context.Context) error {
	m := j.c.follower.Map()
	for _, shard := range spreadShards(m, joinWriters) {
		one, err := j.probes.writer(shard)
		if err != nil {
			return err
		}
		j.writers = append(j.writers, one)
	}
	for _, shard := range spreadShards(m, joinReaders) {
		one, err := j.probes.reader(ctx, shard, client.Nearest)
		if err != nil {
			return err
		}
		j.readers = append(j.readers, one)
	}
	return nil
}

// complete waits until the new node is in chains, no chain has a learner, and the map is stable.
func (j *join) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	err := j.c.await(ctx, "the new node to be in a chain", func(m *topology.Map) bool {
		return slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool {
			return slices.Contains(m.Names(&chain), j.newcomer)
		})
	})
	if err == nil {
		err = j.c.settle(ctx)
	}
	if err != nil {
		return err
	}
	leading, err := j.o.Leader(ctx, j.c.lab)
	j.copied = leading.Copied
	return err
}

func (j *join) judge() *JoinResult {
	first, last, shards := j.copying.seen()
	r := &JoinResult{
		PauseMs: milliseconds(joinPause), CopyS: (last - first).Seconds(),
		CopiedMB: float64(j.copied) / 1e6, Objects: j.o.Objects,
		ValueBytes: j.o.ValueBytes, Shards: j.c.follower.Map().Shards(), ShardsCopied: shards,
		FillS: j.filled.Seconds(), Nodes: j.o.Lab.Nodes,
	}
	r.MBPerS = r.CopiedMB / r.CopyS
	var pauses []time.Duration
	for shard, seen := range byShard(j.writers) {
		begin, pause := seen.worstGap(j.joined, last, j.ended)
		j.o.event("shard %d: writes paused for %v, %v after the node was started",
			shard, pause.Round(100*time.Microsecond), (begin - j.joined).Round(time.Millisecond))
		pauses = append(pauses, pause)
		r.BeforeMs = max(r.BeforeMs, milliseconds(seen.longestGap(quiet/2, j.joined, j.joined)))
	}
	slices.Sort(pauses)
	r.ShardsWatched = len(pauses)
	r.WritePauseMs, r.WritePauseMedianMs = milliseconds(pauses[len(pauses)-1]), milliseconds(pauses[len(pauses)/2])
	for shard, seen := range byShard(j.readers) {
		begin, pause := seen.worstGap(j.joined, last, j.ended)
		j.o.event("shard %d: reads paused for %v, %v after the node was started",
			shard, pause.Round(100*time.Microsecond), (begin - j.joined).Round(time.Millisecond))
		r.ReadGapMs = max(r.ReadGapMs, milliseconds(pause))
	}
	during := (j.ended - j.joined).Seconds()
	r.WritesPerS, r.ReadsPerS = count(j.writers, j.joined, j.ended)/during, count(j.readers, j.joined, j.ended)/during
	return r
}

// count returns the number of successes of probes between two times.
func count(all []*probe, from, to time.Duration) float64 {
	n := 0
	for _, one := range all {
		for _, at := range one.seen {
			if at >= from && at < to {
				n++
			}
		}
	}
	return float64(n)
}
