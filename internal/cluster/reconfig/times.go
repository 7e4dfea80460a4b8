package reconfig

import (
	"cmp"
	"fmt"
	"time"
)

// Times are those settings that decide how fast a cluster notices failures, and how patient it is.
type Times struct {
	Heartbeat, Lease, Suspect, LeaseMax, SuspectMax, Sure time.Duration
}

// Times are the present ones.
func (s *Settings) Times() Times {
	return Times{Heartbeat: s.Heartbeat, Lease: s.Lease, Suspect: s.Suspect, LeaseMax: s.LeaseMax, SuspectMax: s.SuspectMax, Sure: s.Sure}
}

// SetTimes changes the times, and keeps in mind the longest grant that earlier ones allowed (L5).
func (s *Settings) SetTimes(t Times) {
	longest := s.longest()
	s.Heartbeat, s.Lease, s.Suspect, s.LeaseMax, s.SuspectMax, s.Sure = t.Heartbeat, t.Lease, t.Suspect, t.LeaseMax, t.SuspectMax, t.Sure
	s.Longest = max(longest, s.longest())
}

// longest is how long a grant of any controller of this cluster may last, whenever it was given.
func (s *Settings) longest() time.Duration { return max(s.Longest, s.Lease, s.LeaseMax) }

// or fills zero times from o. Maxima that were not requested are at least the times that they limit.
func (t Times) or(o Times) Times {
	out := Times{Heartbeat: cmp.Or(t.Heartbeat, o.Heartbeat), Lease: cmp.Or(t.Lease, o.Lease), Suspect: cmp.Or(t.Suspect, o.Suspect)}
	out.LeaseMax = cmp.Or(t.LeaseMax, max(o.LeaseMax, out.Lease))
	out.SuspectMax = cmp.Or(t.SuspectMax, max(o.SuspectMax, out.Suspect))
	out.Sure = cmp.Or(t.Sure, max(o.Sure, out.Suspect))
	return out
}

// minHeartbeat is the least time between two heartbeats, and longestTime the most of any time.
const (
	minHeartbeat = time.Millisecond
	longestTime  = time.Hour
)

// Check reports the first thing wrong with the times, in the words of the command line.
func (t Times) Check() error {
	switch {
	case t.Heartbeat < minHeartbeat:
		return fmt.Errorf("--beat %v: at least %v is wanted", t.Heartbeat, minHeartbeat)
	case t.Suspect < 2*t.Heartbeat:
		return fmt.Errorf("--suspect %v: a node that sends a heartbeat every %v is not silent before two heartbeats are missing",
			t.Suspect, t.Heartbeat)
	case t.Lease < 2*t.Heartbeat:
		return fmt.Errorf("--lease %v: a node that sends a heartbeat every %v would lose its lease when one heartbeat is late",
			t.Lease, t.Heartbeat)
	case t.LeaseMax < t.Lease:
		return fmt.Errorf("--lease-max %v: below --lease, %v", t.LeaseMax, t.Lease)
	case t.SuspectMax < t.Suspect:
		return fmt.Errorf("--suspect-max %v: below --suspect, %v", t.SuspectMax, t.Suspect)
	case t.Sure < t.Suspect:
		return fmt.Errorf("--sure %v: below --suspect, %v", t.Sure, t.Suspect)
	case max(t.LeaseMax, t.SuspectMax, t.Sure) > longestTime:
		return fmt.Errorf("no time is longer than %v", longestTime)
	}
	return nil
}
