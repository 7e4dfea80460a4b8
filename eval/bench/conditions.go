package bench

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// Conditions are how requests and leases differ from those in use. The zero value is as in use.
type Conditions struct {
	// InOrder makes requests name keys in the order of their insertion, in which objects lie one behind the other in
	// memory. Otherwise the order is shuffled.
	InOrder bool `json:"in_order"`
	// LeaseForever grants leases without an end, which no read compares with the clock.
	LeaseForever bool `json:"lease_forever"`
}

// longLease is a lease that no benchmark outlasts.
const longLease = 365 * 24 * time.Hour

// lease returns the length of the nodes' leases.
func (c Conditions) lease() time.Duration {
	if c.LeaseForever {
		return dataplane.Forever
	}
	return longLease
}

// order returns keys, given in the order of their insertion, in the order of requests.
func (c Conditions) order(keys []wire.Key) []wire.Key {
	if c.InOrder {
		return keys
	}
	return shuffled(keys)
}

// shuffled returns the keys in a random order.
func shuffled(keys []wire.Key) []wire.Key {
	keys = slices.Clone(keys)
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

// conditions describes the conditions in a summary.
func (c Conditions) conditions() string {
	order, leases := "keys shuffled", "leases compared with the clock"
	if c.InOrder {
		order = "keys in order of insertion (--in-order)"
	}
	if c.LeaseForever {
		leases = "leases without an end (--lease-forever)"
	}
	return order + ", " + leases
}
