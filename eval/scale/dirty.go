package scale

import "math"

// dirty is the part of the reads at node k of a chain that meet a dirty object, with so many writes
// per second in all. Writes of a key are taken to come at random, and reads too.
func (m *model) dirty(s *shard, k int, writes float64) float64 {
	window := s.window[k]
	if m.protocol == NetChain || window == 0 || writes == 0 {
		return 0
	}
	if m.work.Zipf == 0 {
		return m.dirtyKey(writes / float64(m.work.Keys) * window)
	}
	sum := 0.0
	for _, part := range s.keys {
		sum += part * m.dirtyKey(writes*part*window)
	}
	return sum / s.part
}

// dirtyKey returns the share of time in which an object is dirty, given the mean number of writes
// to it within the time that one write takes.
//
// With our protocol an object is dirty while any write is in flight. No write began in the last
// window with probability exp(-writes). As published, any ACK makes it clean, even if later writes
// are pending: it is dirty if the last write came within the window and after the last ACK. Both
// ages have the same distribution, so the share is half of ours with twice the writes. It is lower
// than ours because pending writes are forgotten.
func (m *model) dirtyKey(writes float64) float64 {
	if m.protocol == NetCRAQPaper {
		return -math.Expm1(-2*writes) / 2
	}
	return -math.Expm1(-writes)
}
