package sim

import (
	"maps"
	"slices"
	"time"
)

// shrinkRuns bounds the search for a smaller run.
const shrinkRuns = 3000

// Shrink makes a run with a violation smaller while the violation stays: it removes operations and
// faults one after the other, then nodes, keys and pauses. The result lists its faults explicitly
// and is deterministic.
func (r *Runner) Shrink(c Config, kind Kind) (Config, error) {
	result, err := r.Run(c)
	if err != nil {
		return c, err
	}
	c.Drawn, c.Weather, c.Faults = false, Weather{}, result.Faults
	s := &shrinker{runner: r, kind: kind, best: c, runs: shrinkRuns}
	if !s.try(c) {
		return c, s.err
	}
	for size := -1; size != s.best.size() && s.runs > 0 && s.err == nil; {
		size = s.best.size()
		s.dropOps()
		s.dropFaults()
		s.simplify()
	}
	return s.best, s.err
}

// size measures a run; shrinking reduces it.
func (c *Config) size() int {
	size := len(c.Ops) + len(c.Faults) + c.Nodes + c.Keys + c.clients()
	if c.Before > 0 {
		size += 1<<16 - c.Before
	}
	for _, op := range c.Ops {
		size += int(op.Think / time.Microsecond)
	}
	for _, f := range c.Faults {
		size += int(f.By / time.Microsecond)
	}
	return size
}

type shrinker struct {
	runner *Runner
	kind   Kind
	best   Config
	runs   int
	err    error
}

// try keeps a run if it shows the violation.
func (s *shrinker) try(c Config) bool {
	if s.runs <= 0 || s.err != nil {
		return false
	}
	s.runs--
	result, err := s.runner.Run(c)
	if err != nil {
		s.err = err
		return false
	}
	verdict, err := s.runner.Judge(c, result)
	if err != nil {
		s.err = err
		return false
	}
	_, shows := verdict.Has(s.kind)
	if shows {
		s.best = c
	}
	return shows
}

func (s *shrinker) dropOps() {
	drop(func() int { return len(s.best.Ops) }, func(from, until int) bool {
		c := s.best
		c.Ops = slices.Delete(slices.Clone(c.Ops), from, until)
		if s.try(c) {
			return true
		}
		if c.Before += until - from; c.Before > until-from &&
			c.Before < 1<<16 { // count the removed writes as written before the run
			return s.try(c)
		}
		return false
	})
}

func (s *shrinker) dropFaults() {
	drop(func() int { return len(s.best.Faults) }, func(from, until int) bool {
		c := s.best
		c.Faults = slices.Delete(slices.Clone(c.Faults), from, until)
		return s.try(c)
	})
}

// drop leaves out parts of a list, the large ones first. without tries to leave out a part, which
// then is gone.
func drop(length func() int, without func(from, until int) bool) {
	for size := max(1, length()/2); ; size /= 2 {
		for from := 0; from < length(); {
			if !without(from, min(from+size, length())) {
				from += size
			}
		}
		if size == 1 {
			return
		}
	}
}

// simplify makes the remaining run easier to read.
func (s *shrinker) simplify() {
	for _, change := range []func(*Config){
		func(c *Config) { c.Before = 0 },
		(*Config).oneKey,
		(*Config).dropNode,
		(*Config).renumberClients,
	} {
		c := s.best
		c.Ops, c.Faults = slices.Clone(c.Ops), slices.Clone(c.Faults)
		if change(&c); c.size() < s.best.size() {
			s.try(c)
		}
	}
	for i := range s.best.Ops {
		s.round(func(c *Config) *time.Duration { return &c.Ops[i].Think }, 0, time.Millisecond, 2*retryAfter)
	}
	for i := range s.best.Faults {
		s.round(func(c *Config) *time.Duration { return &c.Faults[i].By }, time.Millisecond,
			retryAfter+10*time.Millisecond, 2*retryAfter)
	}
}

// round tries rounder and shorter times in place of one.
func (s *shrinker) round(of func(*Config) *time.Duration, times ...time.Duration) {
	for _, d := range times {
		c := s.best
		c.Ops, c.Faults = slices.Clone(c.Ops), slices.Clone(c.Faults)
		if d >= *of(&c) {
			return
		}
		if *of(&c) = d; s.try(c) {
			return
		}
	}
}

// oneKey makes a run that uses one key alone one of a single key.
func (c *Config) oneKey() {
	used := make(map[int]bool)
	for _, op := range c.Ops {
		used[op.Key] = true
	}
	if len(used) > 1 {
		return
	}
	c.Keys = 1
	for i := range c.Ops {
		c.Ops[i].Key = 0
	}
}

// leastNodes are those of the shortest chain that has a head and a tail.
const leastNodes = 2

// dropNode removes the second node of the chain and the faults on its links.
func (c *Config) dropNode() {
	if c.Nodes == leastNodes {
		return
	}
	c.Nodes--
	move := func(e Endpoint) Endpoint {
		if e > 0 && e < firstClient {
			return e - 1
		}
		return e
	}
	var faults []Fault
	for _, f := range c.Faults {
		f.Link = Link{move(f.From), move(f.To)}
		if f.From != f.To {
			faults = append(faults, f)
		}
	}
	c.Faults = faults
	for i := range c.Ops {
		c.Ops[i].Node = int(move(Endpoint(c.Ops[i].Node)))
	}
}

// renumberClients gives the clients that are left the first numbers.
func (c *Config) renumberClients() {
	numbers := make(map[int]int)
	for _, op := range c.Ops {
		numbers[op.Client] = 0
	}
	for i, client := range slices.Sorted(maps.Keys(numbers)) {
		numbers[client] = i
	}
	for i := range c.Ops {
		c.Ops[i].Client = numbers[c.Ops[i].Client]
	}
	move := func(e Endpoint) Endpoint {
		if number, is := numbers[int(e-firstClient)]; is && e >= firstClient {
			return firstClient + Endpoint(number)
		}
		return e
	}
	for i := range c.Faults {
		c.Faults[i].Link = Link{move(c.Faults[i].From), move(c.Faults[i].To)}
	}
}
