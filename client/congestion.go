package client

import "time"

const (
	// minInFlight is how many attempts a pipeline has under way in any case.
	minInFlight = 8
	// cutTo is the share of allowed attempts that is left after a time without answers.
	cutTo = 0.7
	// growth is the increase with each answer.
	growth = 1.0 / 16
)

// congestion limits the attempts that a pipeline has under way, so that nodes that are overloaded do not spend their
// time on repetitions of requests that wait in their queues already: fewer when answers stay out, more with every
// answer.
type congestion struct {
	limit   float64
	allowed float64
	cut     time.Time // the last time
}

func newCongestion(limit int) congestion {
	return congestion{limit: float64(limit), allowed: float64(limit)}
}

func (g *congestion) allows(inFlight int) bool { return inFlight < int(g.allowed) }

func (g *congestion) answered() { g.allowed = min(g.allowed+growth, g.limit) }

// missed notes that an attempt stayed without an answer. Those that were under way together count as one.
func (g *congestion) missed(now time.Time, together time.Duration) {
	if now.Sub(g.cut) < together {
		return
	}
	g.cut, g.allowed = now, max(g.allowed*cutTo, min(minInFlight, g.limit))
}
