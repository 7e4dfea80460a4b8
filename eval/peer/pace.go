package peer

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// pace schedules a client's operations.
type pace struct {
	every time.Duration // time between operations; 0: closed loop
	due   time.Time
}

// clock returns the worker's share of the rate. The clients' start times are staggered.
func (w *worker) clock() *pace {
	if w.load.PerSecond == 0 {
		return new(pace)
	}
	interval := time.Duration(float64(time.Second) / w.load.PerSecond)
	return &pace{
		every: time.Duration(float64(w.load.Clients) * float64(time.Second) / w.load.PerSecond),
		due:   time.Now().Add(time.Duration(w.number) * interval),
	}
}

// next waits for the next operation and returns the time from which its latency counts. If the
// client is late, that is the time at which the operation was due, because a user would wait from
// then. If the timer fires late, it is the time of the start, because the system did not cause the
// delay.
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
		if !retry.Sleep(ctx, due.Sub(now)) {
			return due, false
		}
		return time.Now(), true
	}
	return due, true
}
