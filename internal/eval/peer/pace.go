package peer

import (
	"context"
	"time"
)

// pace says when a client's operations begin.
type pace struct {
	every time.Duration // between operations; 0: as soon as the last has ended
	due   time.Time
}

// clock gives a worker its share of the rate; clients take turns.
func (w *worker) clock() *pace {
	if w.load.PerSecond == 0 {
		return new(pace)
	}
	turn := time.Duration(float64(time.Second) / w.load.PerSecond)
	return &pace{
		every: time.Duration(float64(w.load.Clients) * float64(time.Second) / w.load.PerSecond),
		due:   time.Now().Add(time.Duration(w.number) * turn),
	}
}

// next waits for the time of the next operation, from which its duration counts. An operation for which its client had no time
// counts from when it should have begun, as its user would; one that the timer begins late counts from when it begins,
// since the system has no part in that.
func (p *pace) next(ctx context.Context, end time.Time) (time.Time, bool) {
	now := time.Now()
	if p.every == 0 {
		return now, now.Before(end) && ctx.Err() == nil
	}
	due := p.due
	p.due = due.Add(p.every)
	if due.After(end) || ctx.Err() != nil {
		return due, false
	}
	if due.After(now) {
		timer := time.NewTimer(due.Sub(now))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return due, false
		}
		return time.Now(), true
	}
	return due, true
}
