package txn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Options describe a run. Contention, Clients and Duration are required. The other fields default
// if zero.
type Options struct {
	Contention float64       // contention index: one divided by the number of hot items, above 0, at most 1
	Clients    int           // in a closed loop
	Duration   time.Duration // time of the measurement
	WarmUp     time.Duration // time before the measurement; default: a tenth of Duration
	Items      int           // items that are not hot; default DefaultItems
	Locks      int           // locks per transaction; default DefaultLocks
	AtOnce     int           // locks requested in one step; default 1
	Seed       uint64
}

// Defaults of [Options].
const (
	DefaultLocks = 10
	DefaultItems = 1 << 18 // with a hundred clients, one of thirty transactions contends here
)

// OptionError reports an option value that a run does not support.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

// Validate fills in defaults and reports unsupported options.
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
		return wrong("the contention index is above 0 and at most 1, and at least one in a million, not %v", o.Contention)
	case o.Clients < 1 || o.Clients > maxClients:
		return wrong("1 to %d clients, not %d", maxClients, o.Clients)
	case o.Duration <= 0 || o.WarmUp < 0:
		return wrong("a run needs a positive duration and a warm-up of at least 0, not %v and %v", o.Duration, o.WarmUp)
	case o.Locks < 1 || o.Locks > o.Items || o.Items > maxItems:
		return wrong("%d locks of %d items: want at least 1 lock, at least as many items, and at most %d items",
			o.Locks, o.Items, maxItems)
	case o.AtOnce < 1:
		return wrong("%d locks at once: want at least 1", o.AtOnce)
	}
	return nil
}

// Limits of clients and items.
const (
	maxClients = 10_000
	maxItems   = 1_000_000
)

// HotItems returns the number of hot items.
func (o *Options) HotItems() int { return int(math.Round(1 / o.Contention)) }

// AllItems returns the number of items. The hot ones have the lowest numbers.
func (o *Options) AllItems() int { return o.HotItems() + o.Items }

// order is one transaction: a hot item and others.
type order struct {
	items []Item // in the order in which all transactions acquire locks, so that blocking locks cannot deadlock
	units []uint32
}

// maxUnits bounds the units of an item in one order, as in TPC-C.
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
