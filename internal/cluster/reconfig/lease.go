package reconfig

import (
	"slices"
	"time"
)

// Lease is a node's permission to answer reads. It lasts as long as the grants of a majority of the controllers. The
// zero value is no lease. Times are those of the node's plane.
type Lease struct {
	grants map[string]granted // the newest of each controller
	sent   uint64             // stamp of the last heartbeat
	until  uint64
	void   uint64 // grants for an earlier stamp are void (H4)
}

type granted struct {
	stamp, until uint64
	majority     int
	setID        uint32 // of the controllers
}

// Stamp adds the time and the lease to a heartbeat that is sent now.
func (l *Lease) Stamp(b Heartbeat, now uint64) Heartbeat {
	l.sent = max(l.sent, now)
	b.Stamp, b.LeaseLeft = now, l.Left(now)
	return b
}

// Left is how long the lease lasts after now; not positive: it is over.
func (l *Lease) Left(now uint64) time.Duration { return time.Duration(l.until - now) }

// Until is when the lease ends. It grows until [Lease.Void].
func (l *Lease) Until() uint64 { return l.until }

// Extend takes the end of a lease that the plane was granted by heartbeats (H2), and reports whether the lease became longer.
func (l *Lease) Extend(until uint64) bool {
	if until <= l.until {
		return false
	}
	l.until = until
	return true
}

// Void ends the lease if its grants are for stamps before since, when the node's clock was found to have stood still (H4).
// It reports whether it did.
func (l *Lease) Void(since uint64) bool {
	if since <= l.void {
		return false
	}
	l.void, l.until, l.grants = since, 0, nil
	return true
}

// Grant takes a controller's answer to a heartbeat, and reports whether the lease became longer. Each controller counts
// once, even if it answers on several connections, and only with others of its set. A lease stays valid when the set
// changes (L7).
func (l *Lease) Grant(controller string, g Grant) bool {
	if g.Majority < 1 || g.Lease <= 0 || g.Stamp > l.sent || g.Stamp < l.void || g.Stamp < l.grants[controller].stamp {
		return false
	}
	if l.grants == nil {
		l.grants = make(map[string]granted)
	}
	l.grants[controller] = granted{g.Stamp, g.Stamp + uint64(g.Lease), g.Majority, g.SetID}
	ends, majority := make([]uint64, 0, len(l.grants)), 0
	for _, grant := range l.grants {
		if grant.setID != g.SetID {
			continue
		}
		ends, majority = append(ends, grant.until), max(majority, grant.majority)
	}
	if len(ends) < majority {
		return false
	}
	slices.Sort(ends)
	before := l.until
	l.until = max(l.until, ends[len(ends)-majority])
	return l.until > before
}
