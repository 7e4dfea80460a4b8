package xdp

import (
	"slices"
	"time"
)

// retryMost is the longest time after which an attachment that failed is tried again.
const retryMost = time.Minute

// exclusion is why an interface that nobody named is no port: it could not be a native one.
type exclusion struct {
	why   string
	again time.Time     // when it is tried again; zero: when it is made anew
	wait  time.Duration // after the last attempt
}

// mayLeaveOut reports whether an interface that cannot be native is left out: nobody named it and there are other ports.
func (p *Plane) mayLeaveOut(index int) bool {
	others := slices.ContainsFunc(p.ports, func(q port) bool { return q.index != index })
	return len(p.names) == 0 && others
}

const leftOutAdvice = ": to have all ports in generic mode, name them with --port-if, or start with --mode generic"

// exclude leaves out an interface whose attachment failed. That may pass: a driver lacks memory for a moment, or the
// other end of a veth pair gets its program later.
func (p *Plane) exclude(index int, why string, now time.Time) {
	wait := min(max(lookAgain, 2*p.excluded[index].wait), retryMost)
	p.excluded[index] = exclusion{why: why + leftOutAdvice, again: now.Add(wait), wait: wait}
}

// leaveOut makes a port that sends no answers one no more; not if it may not be left out.
func (p *Plane) leaveOut(index int, why string) bool {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	if !p.mayLeaveOut(index) {
		return false
	}
	p.excluded[index] = exclusion{why: why + leftOutAdvice} // it would take requests again
	return true
}

// avoided lists the interfaces that are not tried now, and why, by index. Those that are tried may be no candidates
// at present, so the next time is set here.
func (p *Plane) avoided(now time.Time) map[int]string {
	avoided := make(map[int]string)
	for index, r := range p.excluded {
		if r.again.IsZero() || now.Before(r.again) {
			avoided[index] = r.why
			continue
		}
		r.again = now.Add(retryMost)
		p.excluded[index] = r
	}
	return avoided
}
