package engine

import "time"

// Overview is the state of a gateway's cache.
type Overview struct {
	Placed   int           // keys that this gateway placed and answers for
	Excluded int           // keys that are not placed, because something writes them past the gateways
	Gateways int           // that live, this one included
	Session  bool          // this gateway has a session, so that it takes writes of placed keys
	Ended    bool          // the cache has ended for good
	Waiting  int           // calls of the chain that clients wait for
	Longest  time.Duration // how long the oldest of these has taken
}

// Overview describes the cache as it is now.
func (e *Engine) Overview() Overview {
	var o Overview
	p := &e.places
	p.mu.Lock()
	o.Placed, o.Excluded, o.Gateways = len(p.mine), len(p.excluded), p.gateways
	p.mu.Unlock()
	e.mu.Lock()
	o.Session, o.Waiting = e.core.Serving() && e.alive(), len(e.calls)
	for _, since := range e.calls {
		o.Longest = max(o.Longest, time.Since(since))
	}
	e.mu.Unlock()
	select {
	case <-e.gone:
		o.Ended = true
	default:
	}
	return o
}
