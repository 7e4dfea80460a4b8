package reconfig

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
)

// Load counts a node's operations since its last report.
type Load struct {
	Node                 NodeID
	Interval             time.Duration
	Shards               map[uint16]Rate // operations in the interval, of the shards that were not idle
	Objects, MaxObjects  uint64
	Sessions, MaxSession uint64
}

// Rate is how much was done: in an interval, or a second.
type Rate struct{ Reads, Writes float64 }

func (r Rate) sum() float64 { return r.Reads + r.Writes }

const (
	smoothing   = 5 * time.Second // a load that changes is believed by two thirds after so long
	silentAfter = 5 * time.Second // age from which a node's last report no longer counts
	idle        = 0.5             // operations a second that are not worth remembering
)

// Loads are the smoothed reports of all nodes.
type Loads struct {
	nodes map[NodeID]*nodeLoad
}

type nodeLoad struct {
	at     time.Duration // of the last report
	last   Load
	shards map[uint16]Rate // a second
}

// NewLoads returns loads without reports.
func NewLoads() *Loads { return &Loads{nodes: make(map[NodeID]*nodeLoad)} }

// Report adds a node's report. A report without an interval is ignored.
func (l *Loads) Report(now time.Duration, r Load) {
	if r.Interval <= 0 {
		return
	}
	n := l.nodes[r.Node]
	if n == nil || now-n.at > silentAfter {
		n = &nodeLoad{shards: make(map[uint16]Rate, len(r.Shards))}
		l.nodes[r.Node] = n
	}
	weight := float64(r.Interval) / float64(r.Interval+smoothing)
	if n.at == 0 {
		weight = 1
	}
	for shard, rate := range n.shards {
		rate.Reads, rate.Writes = rate.Reads*(1-weight), rate.Writes*(1-weight)
		if _, busy := r.Shards[shard]; !busy && rate.sum() < idle {
			delete(n.shards, shard)
			continue
		}
		n.shards[shard] = rate
	}
	for shard, count := range r.Shards {
		rate := n.shards[shard]
		rate.Reads += weight * count.Reads / r.Interval.Seconds()
		rate.Writes += weight * count.Writes / r.Interval.Seconds()
		n.shards[shard] = rate
	}
	n.at, n.last = max(now, 1), r
	n.last.Shards = nil
}

// Node returns a node's operations per second, and its last report; not ok if that is too old.
func (l *Loads) Node(now time.Duration, id NodeID) (rate Rate, last Load, ok bool) {
	n := l.nodes[id]
	if n == nil || now-n.at > silentAfter {
		return Rate{}, Load{}, false
	}
	for _, r := range n.shards {
		rate.Reads += math.Round(r.Reads) // sums of whole numbers are the same in any order
		rate.Writes += math.Round(r.Writes)
	}
	return rate, n.last, true
}

// at returns a node's operations per second in a shard.
func (l *Loads) at(node NodeID, shard uint16) float64 { return l.nodes[node].shards[shard].sum() }

// ShardRate is how busy a shard is.
type ShardRate struct {
	Shard uint16
	Rate  // Reads at all its members together; Writes as its clients count them
}

// Shards returns how busy each shard is that is not idle, in the order of their numbers.
func (l *Loads) Shards(now time.Duration) []ShardRate {
	total := make(map[uint16]Rate)
	for _, n := range l.nodes {
		if now-n.at > silentAfter {
			continue
		}
		for shard, r := range n.shards {
			sum := total[shard]
			total[shard] = Rate{sum.Reads + math.Round(r.Reads), max(sum.Writes, math.Round(r.Writes))} // every member applies every write
		}
	}
	rates := make([]ShardRate, 0, len(total))
	for _, shard := range slices.Sorted(maps.Keys(total)) {
		rates = append(rates, ShardRate{shard, total[shard]})
	}
	return rates
}

// Hottest returns the busiest shards, most first.
func (l *Loads) Hottest(now time.Duration, limit int) []ShardRate {
	rates := l.Shards(now)
	slices.SortStableFunc(rates, func(a, b ShardRate) int { return cmp.Compare(b.sum(), a.sum()) })
	return rates[:min(limit, len(rates))]
}
