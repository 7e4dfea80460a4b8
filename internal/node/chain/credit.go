package chain

import (
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/wire"
)

// MostAddresses is how many addresses [Credits] remembers. One that is forgotten begins anew.
const MostAddresses = 1 << 16

// Credits is what each address may still have of something that has a cost in time (T4, T7). It grows with the clock up to
// wire.ClientBurstNs, and is below zero if the last one cost more. The zero value remembers nothing yet.
type Credits struct {
	table map[netip.Addr]credit
}

type credit struct {
	last uint64
	ns   int64
}

// Take takes a cost out of the credit of an address; false if there is none left.
func (c *Credits) Take(addr netip.Addr, cost, now uint64) bool {
	one, known := c.table[addr]
	if !known {
		if len(c.table) >= MostAddresses || c.table == nil {
			c.table = make(map[netip.Addr]credit)
		}
		one = credit{now, wire.ClientBurstNs}
	}
	if now > one.last {
		one.ns, one.last = min(one.ns+int64(now-one.last), wire.ClientBurstNs), now
	}
	ok := one.ns > 0
	if ok {
		one.ns -= int64(cost)
	}
	c.table[addr] = one
	return ok
}

// affords is T7: it reports whether the client may have an answer with a value of this length, and takes it from the credit
// of its address.
func (r *request) affords(value []byte) bool {
	rate, n := r.node.options.AnswerRate, wire.VersionBytes+len(value)
	if rate == 0 || r.slotted || n <= wire.FreeAnswerBytes {
		return true
	}
	return r.node.answered.Take(r.client.Addr(), uint64(n)*uint64(time.Second)/uint64(rate), r.now)
}
