package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/netcraq/netcraq/eval/statistics"
)

// model is a fabric under work.
type model struct {
	fabric   Fabric
	protocol Protocol
	rates    Rates
	work     Work
	parts    []float64 // of the keys in all requests
	shards   []shard
}

// Throughput returns the load at which the first switch is busy all the time.
func Throughput(f Fabric, p Protocol, r Rates, w Work) (*Result, error) {
	m, err := newModel(f, p, r, w)
	if err != nil {
		return nil, err
	}
	draws := make([]Result, m.work.Draws)
	for i := range draws {
		m.populate(m.work.Seed + uint64(i))
		draws[i] = m.saturate()
	}
	slices.SortFunc(draws, func(a, b Result) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
	result := &draws[len(draws)/2]
	result.Least, result.Most = draws[0].PerSecond, draws[len(draws)-1].PerSecond
	return result, nil
}

// newModel makes a model without keys.
func newModel(f Fabric, p Protocol, r Rates, w Work) (*model, error) {
	if p != NetChain && p != NetCRAQPaper && p != Ours {
		return nil, fmt.Errorf("no protocol %q: want %s, %s or %s", p, NetChain, NetCRAQPaper, Ours)
	}
	m := &model{fabric: f, protocol: p, rates: r, work: w}
	if err := m.fabric.withDefaults(); err != nil {
		return nil, err
	}
	if err := m.rates.withDefaults(); err != nil {
		return nil, err
	}
	if err := m.work.withDefaults(); err != nil {
		return nil, err
	}
	m.parts = statistics.ZipfParts(m.work.Keys, m.work.Zipf)
	m.shards = m.fabric.place(p)
	m.fabric.setWindows(m.shards, m.rates.HopSeconds)
	return m, nil
}

// saturate shares reads out and finds the limit.
func (m *model) saturate() Result {
	perSecond := m.spread()
	if m.protocol != NetChain && m.work.Spread == Level && m.work.WriteShare < 1 {
		perSecond = m.level(perSecond)
	}
	l, dirty := m.count(perSecond)
	node, most, mean := l.greatest()
	return Result{
		Switches:   len(l.busy),
		PerSecond:  perSecond,
		Bottleneck: m.fabric.name(node),
		MeanBusy:   mean / most,
		Packets:    l.packets,
		Dirty:      dirty,
	}
}

// solve finds the throughput at which the busiest switch has no time left. More operations mean more
// dirty objects, so time per operation depends on it, where there are writes and reads.
func (m *model) solve() float64 {
	busy := func(perSecond float64) float64 {
		l, _ := m.count(perSecond)
		_, most, _ := l.greatest()
		return perSecond * most
	}
	if m.protocol == NetChain || m.work.WriteShare == 0 || m.work.WriteShare == 1 {
		return 1 / busy(1)
	}
	const precision = 1e-6
	low, high := 0.0, 1/busy(1)
	below, above := -1.0, busy(high)-1
	for above < 0 {
		low, below, high = high, above, 2*high
		above = busy(high) - 1
	}
	side := 0.0 // below 0 if the low end moved last, above 0 if the high end did
	for high-low > precision*high {
		// where the line between both ends is 0; an end that stays twice counts half, so that it moves, too
		middle := (low*above - high*below) / (above - below)
		value := busy(middle) - 1
		switch {
		case math.Abs(value) < precision:
			return middle
		case value < 0:
			low, below = middle, value
			if side < 0 {
				above /= 2
			}
		default:
			high, above = middle, value
			if side > 0 {
				below /= 2
			}
		}
		side = value
	}
	return low
}

// count adds up the time of all operations at so many per second, and the part of the reads that
// meets dirty objects.
func (m *model) count(perSecond float64) (*load, float64) {
	l, dirty := newLoad(&m.fabric, &m.rates), 0.0
	for i := range m.shards {
		s := &m.shards[i]
		if s.part == 0 {
			continue
		}
		m.countWrites(l, s, s.part*m.work.WriteShare)
		reads := s.part * (1 - m.work.WriteShare)
		for k, asked := range s.reads {
			if asked == 0 || reads == 0 {
				continue
			}
			part := m.dirty(s, k, perSecond*m.work.WriteShare)
			m.countReads(l, s, k, reads*asked, part)
			dirty += s.part * asked * part
		}
	}
	return l, dirty
}

// countWrites follows writes: from a client to the head, down the chain, and from the tail back.
// Where all nodes answer reads, the tail sends each an ACK.
func (m *model) countWrites(l *load, s *shard, packets float64) {
	if packets == 0 {
		return
	}
	tail := s.tail()
	l.client(s.chain[0], packets)
	for k, node := range s.chain[:len(s.chain)-1] {
		l.at(node, packets, m.rates.Write)
		l.between(node, s.chain[k+1], packets)
	}
	l.at(tail, packets, m.rates.Commit)
	if m.protocol != NetChain {
		for _, node := range s.chain[:len(s.chain)-1] {
			l.between(tail, node, packets)
			l.at(node, packets, m.rates.Ack)
		}
	}
	l.client(tail, packets)
}

// countReads follows reads that ask node k of a chain, a part of which meets a dirty object and goes
// on to the tail, which answers the client itself.
func (m *model) countReads(l *load, s *shard, k int, packets, dirty float64) {
	node, tail := s.chain[k], s.tail()
	l.client(node, packets)
	clean, passed := packets*(1-dirty), packets*dirty
	l.at(node, clean, m.rates.Read)
	l.client(node, clean)
	if passed > 0 {
		l.at(node, passed, m.rates.Forward)
		l.between(node, tail, passed)
		l.at(tail, passed, m.rates.Read)
		l.client(tail, passed)
	}
}
