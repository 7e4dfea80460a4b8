package client

import "time"

const (
	// minInFlight is how many attempts a pipeline has under way in any case.
	minInFlight = 8
	// cutTo is what a time without answers leaves of the attempts allowed.
	cutTo = 0.7
	// growth is what each answer adds.
	growth = 1.0 / 16
)

// congestion limits the attempts that a pipeline has under way, so that nodes that are overloaded do not spend their time on
// the repetitions of what waits in their queues already: fewer when answers stay out, more with every answer.
type congestion struct {
	limit   float64
	allowed float64
	cut     time.Time // the last time
}

func newCongestion(limit int) congestion {
	return congestion{limit: float64(limit), allowed: float64(limit)}
}

func (g *congestion) room(inFlight int) bool { return inFlight < int(g.allowed) }

func (g *congestion) answered() { g.allowed = min(g.allowed+growth, g.limit) }

// missed notes that an attempt stayed without an answer. Those that were under way together count as one.
func (g *congestion) missed(now time.Time, together time.Duration) {
	if now.Sub(g.cut) < together {
		return
	}
	g.cut, g.allowed = now, max(g.allowed*cutTo, min(minInFlight, g.limit))
}
