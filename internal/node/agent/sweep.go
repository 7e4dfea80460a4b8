package agent

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// sweeper forgets sessions in which nothing was written for long enough (W12): their clients are gone, or will begin a new
// write, which a node takes from an unknown session too.
type sweeper struct {
	plane       dataplane.Plane
	most        int           // entries of the table
	forgetAfter time.Duration // without a write, an entry is forgotten in any case
	phase       func() wire.Tags
	report      reporter
	forgotten   atomic.Uint64 // sessions

	mu           sync.Mutex
	idleSessions *chain.IdleSessions
	looked       uint64 // time of the last look, on the plane's clock
}

func newSweeper(plane dataplane.Plane, forgetAfter time.Duration, phase func() wire.Tags, log *slog.Logger) *sweeper {
	return &sweeper{
		plane: plane, most: plane.Info().Options.MaxSessions, forgetAfter: forgetAfter, phase: phase, idleSessions: chain.NewIdleSessions(),
		report: reporter{log: log, what: "cannot collect sessions"},
	}
}

// looksInRest is how many looks there are in the time after which a pressing table forgets an entry: the oldest mark of
// an entry that is forgotten is that much younger at most.
const looksInRest = 4

// run looks again and again: often while more than half of the table is taken, so that it is known which entries are idle when it
// fills up.
func (s *sweeper) run(ctx context.Context) {
	every := min(s.forgetAfter, wire.RestS*time.Second) / looksInRest
	periodically(ctx, every, func() time.Duration {
		usage, err := s.plane.Usage()
		if err == nil && (2*usage.Sessions >= s.most || s.idle() >= s.forgetAfter) {
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

// sweep looks once and forgets idle entries; under pressure after a shorter time.
func (s *sweeper) sweep(pressing bool) (dropped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := s.forgetAfter
	if pressing {
		after = min(after, chain.ForgetAfter(s.phase()))
	}
	s.looked = s.plane.Clock()
	due, err := s.idleSessions.Look(s.looked, uint64(after), s.plane.Sessions)
	if err != nil {
		return 0, err
	}
	for k, seq := range due {
		if err := s.plane.DropSession(k, seq); err != nil {
			return dropped, err
		}
		dropped++
		s.forgotten.Add(1)
	}
	if dropped > 0 {
		s.report.log.Info("dropped sessions without writes", "sessions", dropped, "kept", s.idleSessions.Marks()-dropped, "after", after)
	}
	return dropped, nil
}
