package reconfig

import "time"

const (
	// pauseHalfLife is the time in which an observed pause decays to half: a process that paused once may pause again.
	pauseHalfLife = 10 * time.Second
	// pauseMargin is how much longer than the observed pauses a timeout is.
	pauseMargin = 2
)

// pauses is the longest pause observed, which decays: half of it is forgotten in each pauseHalfLife. The zero value:
// none.
type pauses struct {
	longest, at time.Duration
}

// observe records a pause that ended now. A pause beyond most is an outage, and does not count.
func (p *pauses) observe(now, pause, most time.Duration) {
	if pause <= most && pause > p.left(now) {
		p.longest, p.at = pause, now
	}
}

// left returns the remaining time of the longest pause.
func (p *pauses) left(now time.Duration) time.Duration {
	since := max(0, now-p.at)
	halves := since / pauseHalfLife
	if halves >= 63 {
		return 0
	}
	rest := p.longest >> halves
	return rest - time.Duration(int64(rest/2)*int64(since%pauseHalfLife/time.Microsecond)/int64(pauseHalfLife/time.Microsecond))
}

// bridge returns a timeout that bridges usual pauses, within two bounds. An upper bound below the lower one does not
// count.
func bridge(pause, least, most time.Duration) time.Duration {
	return min(max(least, pauseMargin*pause), max(least, most))
}

// outage returns the longest time without a heartbeat that counts as a pause of a process.
func (s *Settings) outage() time.Duration { return pauseMargin * max(s.Suspect, s.SuspectMax) }

// hush records a late call: the leader did not run. Other processes of such a machine pause too.
func (l *Leader) hush(late time.Duration) {
	l.woke = l.listened
	l.noise.observe(l.time, late, l.state.Settings.outage())
}

// patience returns a node's heartbeat timeout. It grows with the pauses observed between the node's heartbeats. If those
// depend on the scheduling of its agent, it also grows with the pauses of this leader, and of nodes that were suspected
// wrongly.
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

// sinceHeartbeat returns the time since a node's last heartbeat, as far as this leader listened.
func (l *Leader) sinceHeartbeat(n *node) time.Duration { return l.listened - n.listened }

// timedOut reports whether a node's heartbeat timed out. A leader that was late itself waits for heartbeats from then on.
func (l *Leader) timedOut(n *node) bool {
	patience := l.patience(n)
	if l.direct(n) && l.rounds-n.round < uint64(patience/l.state.Settings.Heartbeat) {
		return false // it was not asked often enough
	}
	return l.sinceHeartbeat(n) > patience && l.listened-l.woke > min(patience, pauseMargin*l.state.Settings.Suspect)
}

// notePause records the pause between a node's last two heartbeats.
func (l *Leader) notePause(n *node) {
	pause, most := l.sinceHeartbeat(n), l.state.Settings.outage()
	n.pauses.observe(l.time, pause, most)
	if l.suspects[n.id] == heartbeatTimeout || l.state.Nodes[n.id].Standing.Fenced() {
		l.noise.observe(l.time, pause, most)
	}
}
