package chaos

import (
	"context"
	"slices"
	"time"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/platform/retry"
	"github.com/netcraq/netcraq/internal/platform/scheduling"
)

// FailoverOptions describe a trial in which one node of a chain loses power.
type FailoverOptions struct {
	Setup
	Shards  []int  // each runs on its own cluster
	Objects int    // stored before the trial, besides the clients' own, for the repair to copy
	Victim  string // the victim's place in the chain of the first shard
	Rounds  int    // rounds per cluster
}

// FailoverResult is the outcome of a failover trial. The figures are the worst of all rounds.
type FailoverResult struct {
	// longest time without an acknowledged write of a shard that the victim served
	WriteGapMs float64 `json:"write_gap_ms"`
	// longest time without an answer to reads of clean keys at a surviving node
	ReadGapMs float64 `json:"read_gap_ms"`
	// the same for clients that ask any node of the chain, including the victim
	ClientReadGapMs float64         `json:"client_read_gap_ms"`
	RepairS         float64         `json:"repair_s"` // time until every chain had all its members again
	PauseMs         float64         `json:"pause_ms"` // pause of each client between two operations, included in every gap
	Victim          string          `json:"victim"`
	Objects         int             `json:"objects"` // stored before the trial, besides the clients' own
	Nodes           int             `json:"nodes"`
	Controllers     int             `json:"controllers"`
	Rounds          []FailoverRound `json:"rounds"`
	Files           []string        `json:"files,omitempty"` // plots of the curves, if the caller drew them
	// Curves holds the first round of each cluster: the curves of the whole round, then those around the failure.
	Curves []Curves `json:"-"`
}

// FailoverRound is one power failure.
type FailoverRound struct {
	Shards     int     `json:"shards"`
	Node       string  `json:"node"`
	Affected   int     `json:"shards_affected"`
	WriteGapMs float64 `json:"write_gap_ms"`
	// WriteGapParts divides it.
	WriteGapParts GapParts `json:"write_gap_parts"`
	// ClientWriteGapMs is the same for a single client, where several clients write objects of a shard.
	ClientWriteGapMs float64 `json:"client_write_gap_ms"`
	RepairPauseMs    float64 `json:"repair_write_pause_ms"`        // longest gap of writes after that, during the repair
	ClientPauseMs    float64 `json:"client_repair_write_pause_ms"` // the same for a single client
	ReadGapMs        float64 `json:"read_gap_ms"`
	ClientReadGapMs  float64 `json:"client_read_gap_ms"`
	// QuietGapMs is the same as read_gap_ms, before the failure: the effect of the machine's scheduling alone.
	QuietGapMs       float64 `json:"read_gap_before_ms"`
	RepairS          float64 `json:"repair_s"`
	NoticedMs        float64 `json:"noticed_ms"` // time until the first map without the victim
	CopyS            float64 `json:"copy_s"`     // part of repair_s from the first learner to the last complete one
	CopiedMB         float64 `json:"copied_mb"`
	WritesBeforePerS float64 `json:"writes_before_per_s"`
	WritesDuringPerS float64 `json:"writes_in_copy_per_s"`
}

// GapParts are the parts of a gap of writes, one behind the other.
type GapParts struct {
	MapMs   float64 `json:"map_ms"`   // until clients had a map without the victim
	WriteMs float64 `json:"write_ms"` // until a write succeeded, a client's pause included
}

// partsOf divides a gap.
func (f *failover) partsOf(begin, gap time.Duration) GapParts {
	end := begin + gap
	noticed := min(max(f.noticed, begin), end)
	return GapParts{milliseconds(noticed - begin), milliseconds(end - noticed)}
}

// Parameters of the clients of a failover trial.
const (
	failoverWriters = 24
	failoverReaders = 24 // at surviving nodes, and as many at any node
	failoverPause   = 10 * time.Millisecond
	quiet           = 2 * time.Second // time before the failure and after the repair
	repairPatience  = 3 * time.Minute
	wideBin         = 50 * time.Millisecond // plots of the whole round
	narrowBin       = 10 * time.Millisecond // plots of the time around the failure
	around          = 300 * time.Millisecond
	clientTimeout   = 10 * time.Second
)

// Failover runs the trial.
func Failover(ctx context.Context, o FailoverOptions) (*FailoverResult, error) {
	r := &FailoverResult{
		Victim: o.Victim, Objects: o.Objects, Nodes: o.Lab.Nodes, Controllers: o.Lab.Controllers,
		PauseMs: milliseconds(failoverPause),
	}
	var wide, narrow []Curves
	for _, shards := range o.Shards {
		first, err := failoverOf(ctx, o, shards, r)
		if err != nil {
			return nil, err
		}
		wide = append(wide, first.curves(wideBin, -first.failed, first.ended-first.failed))
		narrow = append(narrow, first.curves(narrowBin, -around, around))
	}
	r.Curves = append(wide, narrow...)
	for _, round := range r.Rounds {
		r.WriteGapMs, r.ReadGapMs = max(r.WriteGapMs, round.WriteGapMs), max(r.ReadGapMs, round.ReadGapMs)
		r.ClientReadGapMs, r.RepairS = max(r.ClientReadGapMs, round.ClientReadGapMs), max(r.RepairS, round.RepairS)
	}
	return r, nil
}

// failoverOf runs all rounds on one cluster and returns the first.
func failoverOf(ctx context.Context, o FailoverOptions, shards int, r *FailoverResult) (first *failover, err error) {
	o.Lab.Shards = shards
	c, err := up(ctx, &o.Setup)
	if err != nil {
		return nil, err
	}
	defer func() { err = c.down(ctx, err) }()
	if _, err := c.fill(ctx, o.Objects, ProbeValue, nil); err != nil {
		return nil, err
	}
	// A node that registered late still takes shards over from others: a reader's node could leave its chain.
	if err := c.settle(ctx); err != nil {
		return nil, err
	}
	for number := range o.Rounds {
		f := &failover{c: c, place: o.Victim}
		if err := f.run(ctx); err != nil {
			return nil, err
		}
		if first == nil {
			first = f
		}
		round := f.judge()
		o.event(
			"%d shards, round %d: without %s no writes for %.0f ms, no reads at survivors for %.0f ms; whole again after %.1f s",
			shards, number+1, round.Node, round.WriteGapMs, round.ReadGapMs, round.RepairS)
		r.Rounds = append(r.Rounds, round)
		if number < o.Rounds-1 {
			if err := f.bringBack(ctx); err != nil {
				return nil, err
			}
		}
	}
	return first, nil
}

// failover is one round.
type failover struct {
	c       *cluster
	place   string
	victim  string
	before  *topology.Map
	probes  *probes
	writers []*probe
	steady  []*probe // readers at survivors
	anyNode []*probe // readers that ask a random member of the chain each time, including the victim
	copying *copying
	copied  uint64 // bytes copied

	failed, noticed, repaired, ended time.Duration // times since the probes started
}

func (f *failover) run(ctx context.Context) error {
	kv, err := f.c.client(client.Options{Timeout: clientTimeout})
	if err != nil {
		return err
	}
	defer kv.Close()
	f.before = f.c.follower.Map()
	if f.victim, err = position(f.before, 0, f.place); err != nil {
		return err
	}
	f.probes = newProbes(kv)
	if err := f.station(ctx); err != nil {
		return err
	}
	// The clients share their CPUs with agents of the real-time class, and would be late instead of the answers.
	defer scheduling.BorrowRealTime()()
	f.probes.start(ctx, failoverPause)
	defer f.probes.halt()
	if !retry.Sleep(ctx, quiet) {
		return ctx.Err()
	}
	before, err := f.c.setup.Leader(ctx, f.c.lab)
	if err != nil {
		return err
	}
	f.copying = newCopying(f.probes.now)
	defer f.c.follower.Watch(f.copying.note)()
	// The first map without the victim may come before PowerOff returns.
	gone := make(chan time.Duration, 1)
	defer f.c.follower.Watch(func(m *topology.Map) {
		if f.without(m) {
			select {
			case gone <- f.probes.now():
			default:
			}
		}
	})()
	f.failed = f.probes.now()
	if err := f.c.lab.PowerOff(ctx, f.victim); err != nil {
		return err
	}
	if err := f.observe(ctx, gone); err != nil {
		return err
	}
	after, err := f.c.setup.Leader(ctx, f.c.lab)
	if err != nil {
		return err
	}
	if f.copied = after.Copied; after.Host == before.Host {
		f.copied -= before.Copied
	}
	if !retry.Sleep(ctx, quiet) {
		return ctx.Err()
	}
	f.ended = f.probes.now()
	f.probes.halt()
	return f.probes.check()
}

// observe waits for a map without the victim, then for a map in which every chain has all its
// members.
func (f *failover) observe(ctx context.Context, gone <-chan time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, repairPatience)
	defer cancel()
	if err := f.c.await(ctx, "chains without "+f.victim, f.without); err != nil {
		return err
	}
	select {
	case f.noticed = <-gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := f.c.await(ctx, "the repair", func(m *topology.Map) bool { return f.without(m) && f.c.whole(m) })
	f.repaired = f.probes.now()
	return err
}

// without reports whether no chain has the victim.
func (f *failover) without(m *topology.Map) bool {
	return !slices.ContainsFunc(m.Chains, func(chain topology.MapChain) bool {
		return slices.Contains(m.Names(&chain), f.victim)
	})
}

// station distributes probes over shards evenly.
func (f *failover) station(ctx context.Context) error {
	for _, shard := range spreadShards(f.before, failoverWriters) {
		one, err := f.probes.writer(shard)
		if err != nil {
			return err
		}
		f.writers = append(f.writers, one)
	}
	for i, shard := range spreadShards(f.before, failoverReaders) {
		survivors := slices.DeleteFunc(f.before.Names(f.before.Chain(shard)), func(name string) bool {
			return name == f.victim
		})
		steady, err := f.probes.reader(ctx, shard, client.Named(survivors[i%len(survivors)]))
		if err != nil {
			return err
		}
		anyNode, err := f.probes.reader(ctx, shard, client.Spread) // the nearest node could be a survivor for all of them
		if err != nil {
			return err
		}
		f.steady, f.anyNode = append(f.steady, steady), append(f.anyNode, anyNode)
	}
	return nil
}

// judge computes the round's figures.
func (f *failover) judge() FailoverRound {
	r := FailoverRound{
		Shards: f.before.Shards(), Node: f.victim, RepairS: (f.repaired - f.failed).Seconds(),
		NoticedMs: milliseconds(f.noticed - f.failed),
	}
	for shard := range f.before.ByShard {
		if f.served(uint16(shard)) {
			r.Affected++
		}
	}
	var write, pause time.Duration
	for shard, seen := range byShard(f.writers) {
		if !f.served(shard) {
			continue
		}
		if begin, gap := seen.worstGap(f.failed, f.noticed, f.ended); gap > write {
			write, r.WriteGapParts = gap, f.partsOf(begin, gap)
		}
		pause = max(pause, seen.longestGap(f.noticed, f.ended, f.ended))
	}
	r.WriteGapMs, r.RepairPauseMs = milliseconds(write), milliseconds(pause)
	f.tell("read at a survivor", f.steady)
	f.tell("write", f.writers)
	r.ReadGapMs, r.QuietGapMs = worst(f.steady, f.failed, f.ended, f.ended), worst(f.steady, quiet/2, f.failed, f.failed)
	r.ClientReadGapMs = worst(f.anyNode, f.failed, f.ended, f.ended)
	r.ClientWriteGapMs, r.ClientPauseMs = worst(f.writers, f.failed, f.noticed, f.ended),
		worst(f.writers, f.noticed, f.ended, f.ended)
	f.judgeCopy(&r)
	return r
}

// judgeCopy computes the figures of the copy and the rate of writes during it.
func (f *failover) judgeCopy(r *FailoverRound) {
	began, _, shards := f.copying.seen()
	if shards == 0 { // the copy finished before a map showed it
		began = f.noticed
	}
	r.CopyS, r.CopiedMB = (f.repaired - began).Seconds(), float64(f.copied)/1e6
	r.WritesBeforePerS = count(f.writers, f.failed-quiet, f.failed) / quiet.Seconds()
	r.WritesDuringPerS = count(f.writers, began, f.repaired) / max(f.repaired-began, time.Millisecond).Seconds()
}

// served reports whether the victim was in the chain of a shard.
func (f *failover) served(shard uint16) bool {
	return slices.Contains(f.before.Names(f.before.Chain(shard)), f.victim)
}

// worst returns the longest gap of any one probe. The times are those of [moments.longestGap].
func worst(all []*probe, from, until, end time.Duration) float64 {
	longest := time.Duration(0)
	for _, one := range all {
		longest = max(longest, one.seen.longestGap(from, until, end))
	}
	return milliseconds(longest)
}

// tell reports the longest wait of any client, with its shard and time.
func (f *failover) tell(what string, all []*probe) {
	var worst *probe
	var begin, longest time.Duration
	for _, one := range all {
		if at, gap := one.seen.worstGap(f.failed, f.ended, f.ended); gap > longest {
			worst, begin, longest = one, at, gap
		}
	}
	f.c.setup.event("longest wait for a %s: %v in shard %d, from %v after the failure; its chain was %v",
		what, longest.Round(time.Millisecond),
		worst.shard, (begin - f.failed).Round(time.Millisecond), f.before.Names(f.before.Chain(worst.shard)))
}

// bringBack powers the victim on and waits until the cluster is stable.
func (f *failover) bringBack(ctx context.Context) error {
	if err := f.c.lab.SwitchOn(ctx, f.victim); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, repairPatience)
	defer cancel()
	return f.c.settle(ctx)
}

// settle waits until every chain is whole and the map has been stable for a while.
func (c *cluster) settle(ctx context.Context) error {
	for {
		if err := c.await(ctx, "all chains to be whole", c.whole); err != nil {
			return err
		}
		before := c.follower.Map().Version
		if !retry.Sleep(ctx, quiet) {
			return ctx.Err()
		}
		if m := c.follower.Map(); m.Version == before && c.whole(m) {
			return nil
		}
	}
}
