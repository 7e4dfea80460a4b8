package bench

import (
	"fmt"

	"github.com/netcraq/netcraq/wire"
)

// bundle is how several requests travel in one frame (rules B of the specification).
type bundle struct {
	slots     int // requests of a frame; 0: each frame is one request, in no bundle
	slotBytes int // long enough for all that the messages become on their way
}

// requests is how many a frame has.
func (b bundle) requests() int { return max(b.slots, 1) }

// bytes is the length of the message.
func (b bundle) bytes() int { return wire.BundleBytes + b.slots*b.slotBytes }

// slotBytesFor is the length of the slots that requests need. The answer to a READ holds the value. A write holds it as it
// goes through the chain, behind a longer head, and a READ of a dirty object is forwarded with such a head.
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

// newBundle makes bundles of so many requests; 0 and 1: none.
func newBundle(slots, valueBytes int, writes, dirty bool) (bundle, error) {
	if slots == 0 || slots == 1 { // one request needs no bundle
		return bundle{}, nil
	}
	slotBytes := slotBytesFor(valueBytes, writes, dirty)
	if most := wire.SlotsOf(slotBytes); slots < 0 || slots > most {
		return bundle{}, wrongOption("requests of a frame: at most %d here, in slots of %d bytes; not %d", most, slotBytes, slots)
	}
	return bundle{slots: slots, slotBytes: slotBytes}, nil
}

// inFrames says so in a summary, where there are several.
func inFrames(slots int) string {
	if slots < 2 {
		return ""
	}
	return fmt.Sprintf(", %d requests of a client in a frame", slots)
}

// MostReads is how many reads of clean objects one frame can hold.
func MostReads(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, false, false)) }

// MostDirtyReads is how many reads of dirty objects one frame can hold.
func MostDirtyReads(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, false, true)) }

// MostWrites is how many writes, or reads among writes, one frame can hold.
func MostWrites(valueBytes int) int { return wire.SlotsOf(slotBytesFor(valueBytes, true, false)) }
