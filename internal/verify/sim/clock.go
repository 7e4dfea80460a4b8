package sim

import (
	"math/rand/v2"
	"time"
)

// Clocks run at rates of their own. Leases allow for a tenth between any two (C1); the fastest and the slowest clock
// here use most of that.
const (
	fullRate    = 1_000_000
	maxDriftPPM = 45_000
)

// clock is the clock of one machine. Each shows another time.
type clock struct {
	start, rate uint64
}

func (w *world) newClock(rng *rand.Rand) clock {
	c := clock{start: 1 + rng.Uint64N(uint64(time.Hour)), rate: fullRate}
	if !w.Quiet.has(Drift) {
		w.result.Faults[Drift]++
		c.rate += rng.Uint64N(2*maxDriftPPM) - maxDriftPPM
	}
	return c
}

// show returns the time of the clock at a moment of the simulation.
func (c *clock) show(now uint64) uint64 {
	return c.start + now/fullRate*c.rate + now%fullRate*c.rate/fullRate
}

// takes is how long the simulation takes until the clock has gone on by d.
func (c *clock) takes(d time.Duration) uint64 { return uint64(d) * fullRate / c.rate }
