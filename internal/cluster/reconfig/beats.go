package reconfig

import "time"

const (
	// agentBeats is how many heartbeat intervals pass between two heartbeats of an agent to a controller that does not
	// need them. It has to be less than a node may be silent, [Settings.Suspect], by default.
	agentBeats = 3
	// sparedBeats is the same while no controller needs them. It has to be at most half of the time after which an
	// agent does not count as heard, by default.
	sparedBeats = 6
)

// Beats decides which heartbeats of an agent go to a controller. A controller whose own heartbeats the node's data plane
// takes (H1, H2) knows from the answers that the node lives, and grants leases to the plane. From the agent it needs news
// at once, and otherwise only signs that there still is one. The zero value is that of a new connection.
type Beats struct {
	end   uint64 // of the newest grant that the plane took from the controller
	grown uint64 // when that was seen to change
	sent  uint64 // when the last heartbeat was due
	taken bool   // the plane takes the controller's heartbeats
}

// See takes in the end of the newest grant that the plane took from this controller, 0 if there is none, and reports
// whether the plane takes the controller's heartbeats. Times are the plane's.
func (b *Beats) See(now uint64, every time.Duration, end uint64) (taken bool) {
	if end != b.end {
		b.end, b.grown = end, now
	}
	b.taken = b.grown != 0 && now-b.grown < uint64(every+every/2)
	return b.taken
}

// Due reports whether a heartbeat is to be sent now. news is whether the report changed since the last one, and spared
// whether the plane takes the heartbeats of all controllers.
func (b *Beats) Due(now uint64, every time.Duration, news, spared bool) bool {
	beats := time.Duration(agentBeats)
	if spared {
		beats = sparedBeats
	}
	if b.taken && !news && now-b.sent < uint64(beats*every-every/2) {
		return false
	}
	b.sent = now
	return true
}

// NextLook returns the time after which an agent sees to its heartbeats again. While it is spared that is the longest
// after which a plane that takes no more heartbeats is noticed as soon as otherwise: three intervals after the last
// one.
func NextLook(every time.Duration, spared bool) time.Duration {
	if spared {
		return every + every/2
	}
	return every
}
