package client

import (
	"slices"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/netcraq/netcraq/wire"
)

// outgoing are the datagrams of one system call, as the sender fills them.
type outgoing struct {
	pipeline  int // whose ways they take
	datagrams [batchMessages]datagram
	messages  [batchMessages]ipv4.Message
	n         int
	trains    [batchMessages]train
	coupled   int         // trains
	open      []*datagram // datagrams that may grow, one for each path
	ends      []finished
}

// datagram is one datagram: one attempt alone or, if there are more, a bundle.
type datagram struct {
	to        *member
	chain     *route    // of writes
	way       *batching // state of the way, which a bundle or a train may not pass; nil: no other attempt may join
	items     []item
	slotBytes int
	buffer    []byte
}

// item is a slot of the pipeline whose attempt is in a datagram.
type item struct {
	slot  uint16
	place uint8 // in the chain, of the node asked
	use   uint32
}

func newOutgoing(pipeline int) *outgoing {
	out := &outgoing{pipeline: pipeline}
	for i := range out.messages {
		out.datagrams[i].buffer = make([]byte, 0, wire.MaxDatagramBytes)
	}
	return out
}

func (o *outgoing) clear() {
	clear(o.ends)
	o.n, o.open, o.ends = 0, o.open[:0], o.ends[:0]
}

// add puts an attempt into a datagram. It returns false if that would be one too many. Reads get so many bytes.
func (o *outgoing) add(i item, k *call, readBytes int, now time.Time) bool {
	to, slotBytes := k.route.members[i.place], wire.SlotFor(k.maxMessageBytes(readBytes))
	at := -1
	joinable := !k.single() && wire.SlotsOf(slotBytes) > 1
	if joinable {
		at = slices.IndexFunc(o.open, func(d *datagram) bool { return d.goes(to, k) })
		if at >= 0 && o.open[at].join(i, slotBytes, now) {
			return true
		}
	}
	if o.n == len(o.datagrams) {
		return false
	}
	d := &o.datagrams[o.n]
	o.n++
	d.to, d.way, d.chain, d.slotBytes, d.items = to, nil, nil, slotBytes, append(d.items[:0], i)
	if !joinable {
		return true
	}
	d.way = &to.ways[o.pipeline].reads
	if k.kind.IsWrite() {
		d.way, d.chain = &k.route.writes[o.pipeline], k.route
	}
	switch {
	case !d.way.allowed(now):
		d.way = nil
	case at >= 0:
		o.open[at] = d
	default:
		o.open = append(o.open, d)
	}
	return true
}

// bundleBytes returns the length of a bundle.
func (d *datagram) bundleBytes() int { return wire.BundleBytes + len(d.items)*d.slotBytes }

// goes reports whether a call's first attempt may join those in the datagram: reads to one node, or writes to one chain
// (B4).
func (d *datagram) goes(to *member, k *call) bool {
	if d.to != to || (d.chain != nil) != k.kind.IsWrite() {
		return false
	}
	return d.chain == nil || d.chain == k.route || slices.Equal(d.chain.members, k.route.members)
}

// join makes a place for one more. It returns false if there is none.
func (d *datagram) join(i item, slotBytes int, now time.Time) bool {
	slotBytes = max(d.slotBytes, slotBytes)
	if len(d.items) >= wire.SlotsOf(slotBytes) {
		return false
	}
	if len(d.items) == 1 {
		d.way.opened(now)
	}
	d.items, d.slotBytes = append(d.items, i), slotBytes
	return true
}
