package txn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Options describe a run. Contention, Clients and Duration are needed; zero means the default elsewhere.
type Options struct {
	Contention float64       // the contention index: one by the number of hot items, above 0, at most 1
	Clients    int           // in a closed loop
	Duration   time.Duration // of the measurement
	WarmUp     time.Duration // before it; default: a tenth of Duration
	Items      int           // that are not hot; default DefaultItems
	Locks      int           // that a transaction needs; default DefaultLocks
	AtOnce     int           // locks asked for in one step; default 1: one after the other
	Seed       uint64
}

// Defaults of [Options].
const (
	DefaultLocks = 10
	DefaultItems = 1 << 18 // so many that a hundred clients meet there in one of thirty transactions
)

// OptionError is an option that nothing can be measured with.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

// Validate fills in what is left to defaults, and says what nothing can be measured with.
func (o *Options) Validate() error {
	if o.WarmUp == 0 {
		o.WarmUp = o.Duration / 10
	}
	if o.Items == 0 {
		o.Items = DefaultItems
	}
	if o.Locks == 0 {
		o.Locks = DefaultLocks
	}
	if o.AtOnce == 0 {
		o.AtOnce = 1
	}
	wrong := func(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }
	switch {
	case !(o.Contention > 0 && o.Contention <= 1) || o.HotItems() > maxItems:
		return wrong("the contention index is above 0 and at most 1, and one of a million at least, not %v", o.Contention)
	case o.Clients < 1 || o.Clients > maxClients:
		return wrong("1 to %d clients, not %d", maxClients, o.Clients)
	case o.Duration <= 0 || o.WarmUp < 0:
		return wrong("a run takes some time, not %v after %v", o.Duration, o.WarmUp)
	case o.Locks < 1 || o.Locks > o.Items || o.Items > maxItems:
		return wrong("%d locks of %d items: want 1 lock at least, as many items at least, %d items at most", o.Locks, o.Items, maxItems)
	case o.AtOnce < 1:
		return wrong("%d locks at once: want 1 at least", o.AtOnce)
	}
	return nil
}

// Most clients and items.
const (
	maxClients = 10_000
	maxItems   = 1_000_000
)

// HotItems is how many items are hot.
func (o *Options) HotItems() int { return int(math.Round(1 / o.Contention)) }

// AllItems is how many items there are: the hot ones have the lowest numbers.
func (o *Options) AllItems() int { return o.HotItems() + o.Items }

// order is what one customer wants: a hot item, and others.
type order struct {
	items []Item // in the order in which all transactions take locks, so that locks that wait never wait in a circle
	units []uint32
}

// maxUnits of an item in one order, as in TPC-C.
const maxUnits = 10

// draw makes the next order in place.
func (d *order) draw(o *Options, rng *rand.Rand) {
	d.items, d.units = append(d.items[:0], Item(rng.IntN(o.HotItems()))), d.units[:0]
	for len(d.items) < o.Locks {
		item := Item(o.HotItems() + rng.IntN(o.Items))
		if !slices.Contains(d.items, item) {
			d.items = append(d.items, item)
		}
	}
	slices.Sort(d.items)
	for range d.items {
		d.units = append(d.units, 1+rng.Uint32N(maxUnits))
	}
}
