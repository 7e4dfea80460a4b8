package bench

import (
	"context"
	"fmt"
	"time"
)

// contestant is one of those that get their load in turn.
type contestant struct {
	name  string
	load  *load
	pace  pace
	total Tally // of the measurements that count
}

// prepare finds the pace at which the contestant gets its load.
func (c *contestant) prepare(ctx context.Context) error {
	var err error
	if c.pace, err = c.load.highestPace(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// turn measures until a measurement has lost so little that it counts.
func (c *contestant) turn(ctx context.Context, d time.Duration) (Figure, error) {
	const tries = 10
	var f Figure
	for range tries {
		var err error
		if f, err = c.load.measure(ctx, c.pace, d); err != nil {
			return f, err
		}
		if f.Wrong+f.NotFound+f.Busy+f.Other > 0 {
			return f, fmt.Errorf("%s answered wrongly: %v", c.name, f.Tally)
		}
		if f.tolerable() {
			c.total = c.total.plus(f.Tally)
			return f, nil
		}
	}
	return f, fmt.Errorf("%s loses requests at the pace it had kept up with before: %v", c.name, f.Tally)
}

// takeTurns gives each contestant its turn, round after round, and returns each one's rates.
func takeTurns(ctx context.Context, runners []contestant, rounds int, seconds float64, progress Progress) ([][]float64, error) {
	turn := time.Duration(seconds / float64(rounds) * float64(time.Second))
	rates := make([][]float64, len(runners))
	for n := range rounds {
		for i := range runners {
			f, err := runners[i].turn(ctx, turn)
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], f.PerSecond)
			progress.say("round %d of %d: %s %.2f M/s", n+1, rounds, runners[i].name, f.PerSecond/1e6)
		}
	}
	return rates, nil
}
