package member

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/netcraq/netcraq/internal/member/core"
)

// Reason is why a linearizable read is not answered through the chain.
type Reason uint8

// Reasons. Others are those of [core.Reason].
const (
	None     Reason = iota // it is answered through the chain
	Future                 // the read names a revision that nobody may have shown yet
	Behind                 // this member did not apply the read point in time
	Failed                 // etcd returned an error: the revision is compacted, for instance
	Canceled               // the client did not wait, or the server stops
	ofCore
	reasons = ofCore + Reason(core.BelowJoined) + 1
)

// ReasonOf returns a reason of the register.
func ReasonOf(why core.Reason) Reason { return ofCore + Reason(why) }

func (r Reason) String() string {
	if r >= ofCore {
		return core.Reason(r - ofCore).String()
	}
	return [...]string{"none", "future", "behind", "failed", "canceled"}[r]
}

// Counters count what a front has done.
type Counters struct {
	fast   atomic.Uint64
	slow   [reasons]atomic.Uint64
	waited atomic.Int64 // nanoseconds in which answers waited until they might be shown
}

func (c *Counters) count(why Reason) { c.slow[why].Add(1) }

// Fast returns the number of linearizable reads that were answered through the chain.
func (c *Counters) Fast() uint64 { return c.fast.Load() }

// Slow returns the number of linearizable reads that etcd has answered for a reason.
func (c *Counters) Slow(why Reason) uint64 { return c.slow[why].Load() }

// Waited returns how long answers have waited until they might be shown, all together.
func (c *Counters) Waited() time.Duration { return time.Duration(c.waited.Load()) }

// Reasons lists the reasons that [Counters.Slow] counts.
func Reasons() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for why := Future; why < reasons; why++ {
			if !yield(why) {
				return
			}
		}
	}
}
