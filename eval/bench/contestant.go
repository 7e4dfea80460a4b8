package bench

import (
	"context"
	"fmt"
	"time"
)

// contestant is one of the systems that a benchmark compares.
type contestant struct {
	name  string
	load  *load
	pace  pace
	total Counters // of the measurements that count
}

// prepare finds the contestant's pace.
func (c *contestant) prepare(ctx context.Context) error {
	var err error
	if c.pace, err = c.load.highestPace(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// measureWindow measures until the loss of a measurement is tolerable. It slows the pace down after each
// attempt.
func (c *contestant) measureWindow(ctx context.Context, d time.Duration) (Figure, error) {
	const tries = 10
	var f Figure
	for range tries {
		var err error
		if f, err = c.load.measure(ctx, c.pace, d); err != nil {
			return f, err
		}
		if f.Wrong+f.NotFound+f.Busy+f.Other > 0 {
			return f, fmt.Errorf("%s answered wrongly: %v", c.name, f.Counters)
		}
		if f.tolerable() {
			c.total = c.total.plus(f.Counters)
			return f, nil
		}
		c.pace = c.pace.slower()
	}
	return f, fmt.Errorf("%s loses requests even at the slowest pace: %v", c.name, f.Counters)
}

// Windows sets the measuring time of each contestant. The windows of the contestants alternate because
// the speed of a machine changes from one second to the next.
type Windows struct {
	Seconds float64 // time under load per contestant
	Rounds  int     // rounds over which the time is divided
}

func (t *Windows) validate() error {
	if t.Rounds < 1 || t.Seconds <= 0 || t.Seconds/float64(t.Rounds) < shortestWindow.Seconds() {
		return wrongOption("--seconds %v in --rounds %d: each window must be at least %v", t.Seconds,
			t.Rounds, shortestWindow)
	}
	return nil
}

// validate checks the parts of options that most benchmarks share.
func validate(parts ...interface{ validate() error }) error {
	for _, p := range parts {
		if err := p.validate(); err != nil {
			return err
		}
	}
	return nil
}

// shortestWindow is so long that the start and end of a load do not affect its rate.
const shortestWindow = 20 * time.Millisecond

// length returns the length of one window.
func (t *Windows) length() time.Duration {
	return time.Duration(t.Seconds / float64(t.Rounds) * float64(time.Second))
}

// take measures one window per contestant in each round and returns the rates by contestant. Every other
// round has the reverse order, so that a change of the machine's speed favours none.
func (t *Windows) take(ctx context.Context, runners []contestant, progress Progress) ([][]float64, error) {
	rates := make([][]float64, len(runners))
	for n := range t.Rounds {
		for i := range runners {
			if n%2 == 1 {
				i = len(runners) - 1 - i
			}
			f, err := runners[i].measureWindow(ctx, t.length())
			if err != nil {
				return nil, err
			}
			rates[i] = append(rates[i], f.PerSecond)
			progress.say("round %d of %d: %s %.2f M/s", n+1, t.Rounds, runners[i].name, f.PerSecond/1e6)
		}
	}
	return rates, nil
}
