package client

import "github.com/netcraq/netcraq/wire"

// maxMessageBytes returns the maximum encoded size of any message that this call can produce on its way: an UPDATE with its
// value, or the given size for a read.
func (k *call) maxMessageBytes(read int) int {
	if k.kind.IsWrite() {
		return wire.ChainBytes + len(k.op.value)
	}
	return read
}

// readSlotSize chooses the slot size for reads in bundles, which their replies and FORWARDs have to fit. With small
// slots, more reads are answered BUSY and need a datagram of their own; with large slots, bundles carry fewer. Recent
// reads decide, so that rare ones do not.
type readSlotSize struct {
	longest [wire.MaxSlots + 1]int // reads that became so long that a bundle carries so many of them
	seen    int                    // since the size was chosen
	period  int                    // reads from one choice to the next
	reads   int                    // that a bundle should carry; 0: nothing known yet
}

// The size is chosen after few reads first, then after twice as many each time; earlier ones count half.
const minReadPeriod, maxReadPeriod = 16, 1024

// note counts a read's reply.
func (r *readSlotSize) note(reply *wire.Message) {
	n := wire.VersionBytes + len(reply.Value)
	if reply.Hops > 1 { // it was forwarded
		n = max(n, wire.ChainBytes)
	}
	r.longest[bundled(n)]++
	if r.seen++; r.seen >= max(r.period, minReadPeriod) {
		r.choose()
		r.seen, r.period = 0, min(max(2*r.period, minReadPeriod), maxReadPeriod)
	}
}

// bundled returns how many messages of this size one bundle carries.
func bundled(messageBytes int) int { return wire.SlotsOf(wire.SlotFor(messageBytes)) }

// choose takes the number with the fewest datagrams per read.
func (r *readSlotSize) choose() {
	total, tooLong, fewest := 0, 0, 0.0
	for _, n := range r.longest {
		total += n
	}
	r.reads = 0
	for n := 1; n < len(r.longest); n++ {
		tooLong += r.longest[n-1]
		datagrams := 1/float64(n) + float64(tooLong)/float64(total)
		if n <= bundled(wire.VersionBytes) && (r.reads == 0 || datagrams < fewest) {
			r.reads, fewest = n, datagrams
		}
	}
	for n := range r.longest {
		r.longest[n] /= 2
	}
}

// bytes returns the slot size for a read.
func (r *readSlotSize) bytes() int {
	if r.reads == 0 {
		return wire.ChainBytes
	}
	return wire.RoomFor(r.reads)
}
