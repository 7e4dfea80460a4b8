package peer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rung is a number of clients, and of requests that each has under way.
type rung struct{ clients, pipeline int }

// ladder is what Peak tries: more clients, and more requests at once, until their own cost outweighs what they add.
func ladder(pipelined bool) []rung {
	if pipelined {
		return []rung{{1, 64}, {1, 256}, {2, 128}, {4, 64}, {8, 128}, {16, 16}}
	}
	return []rung{{4, 1}, {16, 1}, {64, 1}, {256, 1}}
}

// Peak looks for the most that a system does of one operation through its client library: it tries numbers of clients for half of the
// load's duration, and measures the best of them for the other half. With a load that has a pipeline it also tries how
// many requests each client has under way. What it took is in the result.
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

// of is the load with the rung's clients, and a key at least for each of them.
func (r rung) of(l Load) Load {
	l.Clients, l.Pipeline, l.Keys = r.clients, r.pipeline, max(l.Keys, r.clients)
	return l
}

// How says what a result was taken with.
func (r *Result) How() string {
	if r.Generator != "" {
		return r.Generator
	}
	text := fmt.Sprintf("%d clients", r.Clients)
	if r.Clients == 1 {
		text = "1 client"
	}
	if r.Pipeline > 1 {
		text += fmt.Sprintf(", %d requests at once each", r.Pipeline)
	}
	return text
}
