package reconfig

import (
	"slices"
	"time"
)

// ticksInHeartbeat is how many ticks a heartbeat interval has while a deadline is not known in advance.
const ticksInHeartbeat = 5

// Rest returns the time after which the caller has to call [Leader.Tick], unless it calls something else before.
// While all nodes are heard that is a quarter of [Settings.Suspect], so mostly their heartbeats come first.
//
// An idle chain of three XDP nodes and a controller took 15 to 47 % of a CPU, mostly for waking up every 2 ms. The
// price of resting: without an order, a floor that rises is noticed after 200 ms, a mute port after a second.
func (l *Leader) Rest() time.Duration {
	s := &l.state.Settings
	rest := s.Suspect / 4 // half of what counts as a pause of this leader (see begin)
	if len(l.claims)+len(l.trims) > 0 {
		rest = 0
	}
	if e := l.byHeartbeat.Front(); e != nil {
		rest = min(rest, s.Suspect-l.sinceHeartbeat(e.Value.(*node)))
	}
	for _, f := range l.leaseWaits {
		if over, known := l.leasesOver(f); known {
			rest = min(rest, over-l.time)
		}
	}
	if due := l.work.due; len(due) > 0 && !l.work.placing && !l.storing {
		rest = min(rest, due[0]-l.time)
	}
	return max(rest, s.Heartbeat/ticksInHeartbeat)
}

// leasesOver returns when a majority of the controllers grants nothing any more. known is false until a majority has
// answered.
func (l *Leader) leasesOver(f *leaseWait) (at time.Duration, known bool) {
	over := make([]time.Duration, 0, len(f.over))
	for controller, at := range f.over {
		if l.state.Controllers.Has(controller) {
			over = append(over, at)
		}
	}
	slices.Sort(over)
	majority := l.state.Controllers.Majority()
	if len(over) < majority {
		return 0, false
	}
	return over[majority-1], true
}
