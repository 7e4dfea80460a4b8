package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rung is a number of clients and of outstanding requests per client.
type rung struct{ clients, pipeline int }

// ladder lists the rungs that Peak tries. The upper ones cost more than they add.
func ladder(pipelined bool) []rung {
	if pipelined {
		return []rung{{1, 64}, {1, 256}, {2, 128}, {4, 64}, {8, 128}, {16, 16}}
	}
	return []rung{{4, 1}, {16, 1}, {64, 1}, {256, 1}}
}

// Peak finds the highest throughput of one operation through the client library. It tries rungs for
// half of the load's duration and measures the best one for the other half. For a load with a
// pipeline it also varies the outstanding requests per client. The result includes the rung.
func Peak(ctx context.Context, s Store, l Load) (Result, error) {
	if err := l.complete(); err != nil {
		return Result{}, err
	}
	rungs := ladder(l.Pipeline > 1)
	try := l
	try.PerSecond = 0
	try.Duration = l.Duration / 2 / time.Duration(len(rungs))
	try.WarmUp = try.Duration / 5
	best, most := rungs[0], 0.0
	for _, r := range rungs {
		tried, err := Run(ctx, s, r.of(try))
		if err != nil && !errors.Is(err, errTooShort) {
			return Result{}, err
		}
		if tried.PerSecond > most {
			best, most = r, tried.PerSecond
		}
	}
	try.Duration = l.Duration / 2
	return Run(ctx, s, best.of(try))
}

// of returns the load with the rung's clients and at least one key per client.
func (r rung) of(l Load) Load {
	l.Clients, l.Pipeline, l.Keys = r.clients, r.pipeline, max(l.Keys, r.clients)
	return l
}

// How describes the clients of a result.
func (r *Result) How() string {
	if r.Generator != "" {
		return r.Generator
	}
	text := fmt.Sprintf("%d clients", r.Clients)
	if r.Clients == 1 {
		text = "1 client"
	}
	if r.Pipeline > 1 {
		text += fmt.Sprintf(", %d outstanding requests each", r.Pipeline)
	}
	return text
}
