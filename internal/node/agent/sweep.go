package agent

import (
	"context"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// sweeper drops sessions in which nothing was written between two sweeps: their clients are gone, or will begin a new
// write, which a node takes from an unknown session too.
type sweeper struct {
	plane dataplane.Plane
	marks map[chain.SessionKey]uint64 // seq of each session at the last sweep
}

func (a *Agent) sweep(ctx context.Context) {
	s := &sweeper{plane: a.options.Plane}
	report := reporter{log: a.log, what: "cannot collect sessions"}
	periodically(ctx, a.options.SweepEvery, func() time.Duration {
		dropped, err := s.sweep()
		report.result(err)
		if dropped > 0 {
			a.log.Info("dropped sessions without writes", "sessions", dropped, "kept", len(s.marks))
		}
		return a.options.SweepEvery
	})
}

func (s *sweeper) sweep() (dropped int, err error) {
	marks := make(map[chain.SessionKey]uint64, len(s.marks))
	stale := make(map[chain.SessionKey]uint64)
	err = s.plane.Sessions(func(k chain.SessionKey, session chain.Session) bool {
		if seq, marked := s.marks[k]; marked && seq == session.Seq {
			stale[k] = seq
		} else {
			marks[k] = session.Seq
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	s.marks = marks
	for k, seq := range stale {
		if err := s.plane.DropSession(k, seq); err != nil {
			return dropped, err
		}
		dropped++
	}
	return dropped, nil
}
