package scale

import "slices"

// spread shares reads out evenly among the nodes that may answer them, and returns the throughput
// that this allows.
func (m *model) spread() float64 {
	for i := range m.shards {
		s := &m.shards[i]
		s.reads = make([]float64, len(s.chain))
		if m.protocol == NetChain {
			s.reads[len(s.reads)-1] = 1
			continue
		}
		for k := range s.reads {
			s.reads[k] = 1 / float64(len(s.reads))
		}
	}
	return m.solve()
}

// Levelling goes in rounds, with several sweeps over all shards in each. Throughput, which decides
// how much is dirty, and the time spent on passing packets on are fixed during a round.
const (
	levelRounds = 6
	levelSweeps = 8
	levelGain   = 0.002 // a round that gains less, relative to the one before, is the last
)

// level distributes reads so that the busiest node does as little as possible, starting from a
// throughput, and returns the throughput that this allows. A dirty read costs the tail the same at
// every node, so clients send reads of mostly dirty keys to the tail.
func (m *model) level(perSecond float64) float64 {
	for range levelRounds {
		kept := make([][]float64, len(m.shards))
		for i := range m.shards {
			kept[i] = slices.Clone(m.shards[i].reads)
		}
		m.sweep(perSecond)
		better := m.solve()
		if better <= perSecond {
			for i := range m.shards {
				m.shards[i].reads = kept[i]
			}
			break
		}
		gain := better/perSecond - 1
		if perSecond = better; gain < levelGain {
			break
		}
	}
	return perSecond
}

// sweep levels one shard after the other, again and again.
func (m *model) sweep(perSecond float64) {
	l, _ := m.count(perSecond)
	_, most, _ := l.greatest()
	busy := make([]float64, len(l.busy)) // relative to the busiest
	for i := range busy {
		busy[i] = l.of(i) / most
	}
	effects := make([][][]float64, len(m.shards))
	for i := range m.shards {
		if s := &m.shards[i]; s.part > 0 {
			effects[i] = m.effects(s, perSecond, most)
		}
	}
	for range levelSweeps {
		for i := range m.shards {
			if m.shards[i].part > 0 {
				m.shards[i].shift(busy, effects[i])
			}
		}
	}
}

// effects says how busy it makes each node of a chain, in the second index, to ask one node, in the
// first, for all of the shard's reads.
func (m *model) effects(s *shard, perSecond, unit float64) [][]float64 {
	reads := s.part * (1 - m.work.WriteShare) / unit
	all, tail := make([][]float64, len(s.chain)), len(s.chain)-1
	for k := range all {
		dirty := m.dirty(s, k, perSecond*m.work.WriteShare)
		all[k] = make([]float64, len(s.chain))
		all[k][k] = reads * ((1-dirty)/m.rates.Read + dirty/m.rates.Forward)
		all[k][tail] += reads * dirty / m.rates.Read
	}
	return all
}

// shift moves reads from one node to another, for each two nodes of a chain, as far as that makes
// the sum of the nodes' busy times to the power of [steepness] smaller, in which the busiest counts
// most. It takes one step of Newton's method in each direction; sweeps do the rest.
func (s *shard) shift(busy []float64, effects [][]float64) {
	for to := 1; to < len(s.chain); to++ {
		for from := range to {
			slope, curve := 0.0, 0.0
			for n, node := range s.chain {
				change := effects[to][n] - effects[from][n]
				high := power(busy[node])
				slope += high * busy[node] * change
				curve += (steepness - 1) * high * change * change
			}
			if curve == 0 {
				continue
			}
			part := min(max(-slope/curve, -s.reads[to]), s.reads[from])
			s.reads[to] += part
			s.reads[from] -= part
			for n, node := range s.chain {
				busy[node] += part * (effects[to][n] - effects[from][n])
			}
		}
	}
}

// steepness is large enough for the busiest node to be nearly all that counts, and small enough for
// steps to find their way.
const steepness = 10

// power is x to the power of steepness-2.
func power(x float64) float64 {
	x *= x
	x *= x
	return x * x
}
