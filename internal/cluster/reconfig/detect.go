package reconfig

import "time"

const (
	// pauseHalfLife is how fast an observed pause is forgotten: a process that was paused once counts as one
	// that may be again.
	pauseHalfLife = 10 * time.Second
	// pauseMargin is how much longer than the observed pauses a timeout is.
	pauseMargin = 2
)

// pauses is the longest pause observed, which decays: half of it is forgotten in each pauseHalfLife. The zero value:
// none.
type pauses struct {
	longest, at time.Duration
}

// observe takes a pause that ended now. One beyond most is an outage, and says nothing of the next pause.
func (p *pauses) observe(now, pause, most time.Duration) {
	if pause <= most && pause > p.left(now) {
		p.longest, p.at = pause, now
	}
}

// left is what is remembered.
func (p *pauses) left(now time.Duration) time.Duration {
	since := max(0, now-p.at)
	halves := since / pauseHalfLife
	if halves >= 63 {
		return 0
	}
	rest := p.longest >> halves
	return rest - time.Duration(int64(rest/2)*int64(since%pauseHalfLife/time.Microsecond)/int64(pauseHalfLife/time.Microsecond))
}

// bridge is how long to wait so that usual pauses fit in, between two bounds; an upper one below the lower does not
// count.
func bridge(pause, least, most time.Duration) time.Duration {
	return min(max(least, pauseMargin*pause), max(least, most))
}

// outage is the silence from which on it is no pause of a process any more.
func (s *Settings) outage() time.Duration { return pauseMargin * max(s.Suspect, s.SuspectMax) }

// hush takes note of a call that came late: time in which this leader did not run. Other processes of such a machine
// pause too.
func (l *Leader) hush(late time.Duration) {
	l.woke = l.listened
	l.noise.observe(l.time, late, l.state.Settings.outage())
}

// patience is the silence after which a node is suspected. It grows with the pauses observed in the node's signs of
// life, and, if these
// depend on how soon its agent is scheduled, with those of this leader and of nodes that were suspected and lived.
func (l *Leader) patience(n *node) time.Duration {
	s := &l.state.Settings
	pause := n.pauses.left(l.time)
	if !l.direct(n) {
		pause = max(pause, l.noise.left(l.time))
	}
	return bridge(pause, s.Suspect, s.SuspectMax)
}

// direct reports whether the node's data plane answers heartbeats itself.
func (l *Leader) direct(n *node) bool {
	return n.direct && l.listened-n.answered <= l.state.Settings.outage()
}

// silence is how long a node was not heard, in time in which this leader listened.
func (l *Leader) silence(n *node) time.Duration { return l.listened - n.listened }

// isSilent reports whether a node is to be suspected. A leader that was late itself judges by what it hears from
// then on.
func (l *Leader) isSilent(n *node) bool {
	patience := l.patience(n)
	if l.direct(n) && l.rounds-n.round < uint64(patience/l.state.Settings.Heartbeat) {
		return false // it was not asked often enough
	}
	return l.silence(n) > patience && l.listened-l.woke > min(patience, pauseMargin*l.state.Settings.Suspect)
}

// notePause takes the silence that ends now.
func (l *Leader) notePause(n *node) {
	pause, most := l.silence(n), l.state.Settings.outage()
	n.pauses.observe(l.time, pause, most)
	if l.suspects[n.id] == silence || l.state.Nodes[n.id].Standing.Fenced() {
		l.noise.observe(l.time, pause, most)
	}
}
