package client

import "github.com/netcraq/netcraq/wire"

// room is how long the message may become that a call's message turns into on its way: an UPDATE with its value; or a FORWARD, then a
// REPLY with a value that nobody here knows, for which there is the given room.
func (k *call) room(reply int) int {
	if k.op.IsWrite() {
		return wire.ChainBytes + len(k.value)
	}
	return max(wire.ChainBytes, reply)
}

// replyRoom finds how much room replies to reads should have in bundles. With too little, more of them come as BUSY and cost
// a datagram of their own; with too much, bundles carry fewer. It goes by the replies of late, long ones among them if there are
// many.
type replyRoom struct {
	longest [wire.MaxSlots + 1]int // replies so long that a bundle carries so many of them
	seen    int                    // since the room was chosen
	period  int                    // replies from one choice to the next
	reads   int                    // that a bundle should carry; 0: nothing known yet
}

// The room is chosen after few replies first, then after twice as many each time; earlier ones count half.
const minReplyPeriod, maxReplyPeriod = 16, 1024

// note counts a reply.
func (r *replyRoom) note(messageBytes int) {
	r.longest[bundled(messageBytes)]++
	if r.seen++; r.seen >= max(r.period, minReplyPeriod) {
		r.choose()
		r.seen, r.period = 0, min(max(2*r.period, minReplyPeriod), maxReplyPeriod)
	}
}

// bundled is how many messages that become so long one bundle carries.
func bundled(messageBytes int) int {
	return wire.SlotsOf(wire.SlotFor(max(wire.ChainBytes, messageBytes)))
}

// choose takes the number that needs the fewest datagrams for a read.
func (r *replyRoom) choose() {
	total, tooLong, fewest := 0, 0, 0.0
	for _, n := range r.longest {
		total += n
	}
	r.reads = 0
	for n := 1; n < len(r.longest); n++ {
		tooLong += r.longest[n-1]
		datagrams := 1/float64(n) + float64(tooLong)/float64(total)
		if n <= bundled(0) && (r.reads == 0 || datagrams < fewest) {
			r.reads, fewest = n, datagrams
		}
	}
	for n := range r.longest {
		r.longest[n] /= 2
	}
}

// bytes is the room for a reply.
func (r *replyRoom) bytes() int {
	if r.reads == 0 {
		return wire.ChainBytes
	}
	slot := (wire.MaxMessageBytes - wire.BundleBytes) / r.reads
	return wire.SlotFor(slot-wire.SlotBytes-3) - wire.SlotBytes
}
