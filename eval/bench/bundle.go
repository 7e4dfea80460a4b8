package bench

import (
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// bundle describes how several requests share one frame (rules B of the specification).
type bundle struct {
	slots     int // requests per frame; 0: one request per frame, no bundle
	slotBytes int // fits the longest message that a request turns into in the chain
}

// requests returns the number of requests per frame.
func (b bundle) requests() int { return max(b.slots, 1) }

// bytes returns the length of the message.
func (b bundle) bytes() int { return wire.BundleBytes + b.slots*b.slotBytes }

// slotBytesFor returns the slot length that requests need. The answer to a READ carries the value.
// A write carries the value through the chain behind a longer header. A READ of a dirty object is
// forwarded with that header too.
func slotBytesFor(valueBytes int, writes, dirty bool) int {
	longest := wire.VersionBytes + valueBytes
	switch {
	case writes:
		longest = wire.ChainBytes + valueBytes
	case dirty:
		longest = max(longest, wire.ChainBytes)
	}
	return wire.SlotFor(longest)
}

// newBundle returns a bundle of the given number of requests, or the zero value for 0 and 1.
func newBundle(slots, valueBytes int, writes, dirty bool) (bundle, error) {
	if slots == 0 || slots == 1 {
		return bundle{}, nil
	}
	slotBytes := slotBytesFor(valueBytes, writes, dirty)
	if most := wire.SlotsOf(slotBytes); slots < 0 || slots > most {
		return bundle{}, wrongOption("requests per frame: at most %d in slots of %d bytes, not %d", most, slotBytes, slots)
	}
	return bundle{slots: slots, slotBytes: slotBytes}, nil
}

// inFrames returns the part of a summary that names the number of requests per frame, if it is
// above 1.
func inFrames(slots int) string {
	if slots < 2 {
		return ""
	}
	return fmt.Sprintf(", %d requests of one client per frame", slots)
}

// MostReads returns the number of reads of clean objects that fit one frame.
func MostReads(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, false, false)) }

// MostDirtyReads returns the number of reads of dirty objects that fit one frame.
func MostDirtyReads(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, false, true)) }

// MostWrites returns the number of writes, or of reads mixed with writes, that fit one frame.
func MostWrites(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, true, false)) }
