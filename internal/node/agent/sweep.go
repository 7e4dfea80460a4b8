package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// sweeper forgets sessions in which nothing was written for long enough (W12): their clients are gone, or will begin a new
// write, which a node takes from an unknown session too.
type sweeper struct {
	plane  dataplane.Plane
	most   int           // entries of the table
	rest   time.Duration // after which an entry is forgotten in any case
	phase  func() wire.Tags
	report reporter

	mu     sync.Mutex
	rested *chain.Rested
	looked uint64 // time of the last look, on the plane's clock
}

func newSweeper(plane dataplane.Plane, rest time.Duration, phase func() wire.Tags, log *slog.Logger) *sweeper {
	return &sweeper{
		plane: plane, most: plane.Info().Options.MaxSessions, rest: rest, phase: phase, rested: chain.NewRested(),
		report: reporter{log: log, what: "cannot collect sessions"},
	}
}

// looksInRest is how many looks there are in the time after which a pressing table forgets an entry: the oldest mark of
// an entry that rested so long is that much younger at most.
const looksInRest = 4

// run looks again and again: often while more than half of the table is taken, so that it is known which entries rest when it
// fills up.
func (s *sweeper) run(ctx context.Context) {
	every := min(s.rest, wire.RestS*time.Second) / looksInRest
	periodically(ctx, every, func() time.Duration {
		usage, err := s.plane.Usage()
		if err == nil && (2*usage.Sessions >= s.most || s.idle() >= s.rest) {
			_, err = s.sweep(chain.Pressing(usage.Sessions, s.most))
		}
		s.report.result(err)
		return every
	})
}

// idle returns the time since the last look.
func (s *sweeper) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.plane.Clock() - s.looked)
}

// sweep looks once and forgets what has rested; under pressure a shorter rest is enough.
func (s *sweeper) sweep(pressing bool) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.rest
	if pressing {
		rest = min(rest, chain.Rest(s.phase()))
	}
	s.looked = s.plane.Clock()
	due, err := s.rested.Look(s.looked, uint64(rest), s.plane.Sessions)
	if err != nil {
		return 0, err
	}
	for k, seq := range due {
		if err := s.plane.DropSession(k, seq); err != nil {
			return dropped, err
		}
		dropped++
	}
	if dropped > 0 {
		s.report.log.Info("dropped sessions without writes", "sessions", dropped, "kept", s.rested.Marks()-dropped, "after", rest)
	}
	return dropped, nil
}
