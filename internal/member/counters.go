package member

import "sync/atomic"

// Reason is why a linearizable read was not answered through the chain.
type Reason int

// Reasons.
const (
	Unknown Reason = iota // the chain does not tell what has been shown, or not all members take part
	Future                // the read names a revision that nobody may have shown yet
	Behind                // this member did not apply the read point in time
	Failed                // etcd returned an error: the revision is compacted, for instance
	reasons
)

var reasonNames = [reasons]string{"unknown", "future", "behind", "failed"}

func (r Reason) String() string { return reasonNames[r] }

// Counters count what a front has done.
type Counters struct {
	fast   atomic.Uint64
	slow   [reasons]atomic.Uint64
	waited atomic.Int64 // nanoseconds in which answers waited until they might be shown
}

func (c *Counters) count(why Reason) { c.slow[why].Add(1) }

// Fast returns the number of linearizable reads that the chain has answered.
func (c *Counters) Fast() uint64 { return c.fast.Load() }

// Slow returns the number of linearizable reads that etcd has answered for a reason.
func (c *Counters) Slow(why Reason) uint64 { return c.slow[why].Load() }
