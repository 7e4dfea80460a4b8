package replay

import (
	"cmp"
	"math"
	"slices"
)

const (
	// window is how long a hot set counts as one, in seconds.
	window = 30
	// hotReads is how many reads in a window make a key hot. The second of them shows it.
	hotReads = 3
	// inPlace is the share of a new hot set's reads whose keys have to be placed.
	inPlace = 0.9
)

// shifts collects the hot sets: for each window the best set of keys within the capacity. The new
// keys of a set are those that were not in the set of the window before.
type shifts struct{ sets [][]hot }

// hot is a key that is new in a set.
type hot struct {
	key        string
	reads      int
	shown, end float64 // its second read, and the window's end
	ready      float64
}

func newShifts(o *Options, t *Trace) *shifts {
	s := new(shifts)
	before := make(map[string]bool)
	for from := 0; from < len(t.Events); {
		end := (math.Floor(t.Events[from].At/window) + 1) * window
		to := from
		for to < len(t.Events) && t.Events[to].At < end {
			to++
		}
		part := &Trace{Events: t.Events[from:to]}
		reads, sizes := weights(part, o)
		left, now := o.Placement.Capacity, make(map[string]bool)
		var set []hot
		for _, key := range byDensity(reads, sizes) {
			if left -= sizes[key]; left < 0 {
				break
			}
			if reads[key] < hotReads {
				continue
			}
			if now[key] = true; !before[key] {
				set = append(set, hot{key: key, reads: reads[key], shown: second(part, key), end: end, ready: math.Inf(1)})
			}
		}
		s.sets = append(s.sets, set)
		before, from = now, to
	}
	return s
}

// second is the time of a key's second read.
func second(t *Trace, key string) float64 {
	seen := 0
	for _, e := range t.Events {
		if e.Key != key || e.Write {
			continue
		}
		if seen++; seen == 2 {
			return e.At
		}
	}
	return math.Inf(1)
}

// see remembers from when keys are in place.
func (s *shifts) see(ready map[string]float64) {
	for _, set := range s.sets {
		for i := range set {
			h := &set[i]
			if at, placed := ready[h.key]; placed && math.IsInf(h.ready, 1) && at < h.end {
				h.ready = at
			}
		}
	}
}

// wait is how long a key was hot before it was in place; one that never was waited until its window ended.
func (h *hot) wait() float64 { return max(0, min(h.ready, h.end)-h.shown) }

// longest is the longest time after which nine tenths of a new hot set, by reads, were in place.
func (s *shifts) longest() float64 {
	longest := 0.0
	for _, set := range s.sets {
		all, done := 0, 0
		for _, h := range set {
			all += h.reads
		}
		set = slices.Clone(set)
		slices.SortFunc(set, func(a, b hot) int { return cmp.Compare(a.wait(), b.wait()) })
		for _, h := range set {
			if done += h.reads; float64(done) >= inPlace*float64(all) {
				longest = max(longest, h.wait())
				break
			}
		}
	}
	return longest
}
