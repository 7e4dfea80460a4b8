package reconfig

import "time"

// agentBeats is how many heartbeat intervals pass between two heartbeats of an agent to a controller that does not need
// them. It has to be less than a node may be silent, [Settings.Suspect], by default.
const agentBeats = 3

// Beats decides which heartbeats of an agent go to a controller. A controller whose own heartbeats the node's data plane
// takes (H1, H2) knows from the answers that the node lives, and grants leases to the plane. From the agent it needs news
// at once, and otherwise only signs that there still is one. The zero value is that of a new connection.
type Beats struct {
	end   uint64 // of the newest grant that the plane took from the controller
	grown uint64 // when that was seen to change
	sent  uint64 // when the last heartbeat was due
}

// Due reports whether a heartbeat is to be sent now. end is the end of the newest grant that the plane took from this
// controller, 0 if there is none; news is whether the report changed since the last one. Times are the plane's.
func (b *Beats) Due(now uint64, every time.Duration, end uint64, news bool) bool {
	if end != b.end {
		b.end, b.grown = end, now
	}
	answers := b.grown != 0 && now-b.grown < uint64(every+every/2)
	if answers && !news && now-b.sent < uint64(agentBeats*every-every/2) {
		return false
	}
	b.sent = now
	return true
}
