package scale

import "math"

// dirty is the part of the reads at node k of a chain that meet a dirty object, with so many writes per second in all. Writes of a key are
// taken to come at random, and reads too.
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

// dirtyKey is the part of the time in which an object is dirty, with so many writes of it within the time that one is under way. With ours
// it is dirty while any is under way: none was in the last window with probability exp(-writes). As published, any ACK makes it clean, whatever
// came after the write that it is of: it is dirty if the last write came within the window, and after the last ACK. Both are that long ago with
// the same distribution, which gives half of what ours would have with twice the writes: fewer, because pending writes are forgotten.
func (m *model) dirtyKey(writes float64) float64 {
	if m.protocol == NetCRAQPaper {
		return -math.Expm1(-2*writes) / 2
	}
	return -math.Expm1(-writes)
}
