package client

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

// train is what one message of a system call sends: one datagram or, if there are more, bundles to one node, all of one
// length but for the last, which may be shorter. The kernel or the device cuts the message into them (UDP_SEGMENT), so
// that routing, queues and device see one. Virtual links leave the cut to the receiver: native XDP forbids them to.
//
// Three trains without an answer to a bundle behind the first end them. A kernel that refuses a train (EIO before
// Linux 6.11 where the device computes no checksums, EINVAL, EMSGSIZE) is asked again after refusedFor. So where
// trains do not pass, two bundles wait for one timeout, at last each minute.
type train []*datagram

// Limits of the kernel's for one message.
const maxTrain, maxTrainBytes = 64, 65_000

// refusedFor is how long no train is sent to a node after the kernel refused one, whose route or device may change.
const refusedFor = time.Minute

// unprovenTrain is the number of bundles in a train to a node that has answered none yet.
const unprovenTrain = 2

// couple distributes the datagrams among trains. The caller holds the pipeline's lock.
func (o *outgoing) couple(now time.Time, trains bool) {
	o.coupled = 0
	for n := range o.n {
		d := &o.datagrams[n]
		if trains && o.joins(d, now) {
			continue
		}
		o.trains[o.coupled] = append(o.trains[o.coupled][:0], d)
		o.coupled++
	}
}

// joins puts a bundle behind others. It returns false if it must begin a train. Only answers to bundles behind the first
// tell that trains pass to the node: virtual links leave it to the receiver to cut them, and not every XDP program is
// attached where the kernel has done so.
func (o *outgoing) joins(d *datagram, now time.Time) bool {
	at := o.latestTrain(d.to)
	ways := &d.to.ways[o.pipeline]
	if len(d.items) < 2 || !d.way.proven || at < 0 || now.Sub(ways.refused) < refusedFor {
		return false
	}
	t, way := o.trains[at], &ways.trains
	length := t[0].bundleBytes()
	switch {
	case len(t[0].items) < 2, d.bundleBytes() > length, t[len(t)-1].bundleBytes() < length:
		return false
	case len(t) == maxTrain, (len(t)+1)*length > maxTrainBytes:
		return false
	case len(t) == 1 && !way.allowed(now), len(t) >= unprovenTrain && !way.proven:
		return false
	case len(t) == 1:
		way.opened(now)
	}
	d.way = way
	o.trains[at] = append(t, d)
	return true
}

// latestTrain returns the place of the last train to a node; -1 if there is none.
func (o *outgoing) latestTrain(to *member) int {
	for at := o.coupled - 1; at >= 0; at-- {
		if o.trains[at][0].to == to {
			return at
		}
	}
	return -1
}

// fill makes a train a message for a system call.
func (t train) fill(m *ipv4.Message) {
	m.Addr, m.OOB, m.Buffers = t[0].to.udp, nil, m.Buffers[:0]
	for _, d := range t {
		m.Buffers = append(m.Buffers, d.buffer)
	}
	if len(t) > 1 {
		m.OOB = segmentsOf(len(t[0].buffer))
	}
}

// refusesTrains reports whether an error says that the kernel or the device does not cut a message into datagrams. EIO: the
// device computes no checksums (Linux before 6.11), EINVAL and EMSGSIZE: a datagram is longer than the MTU.
func refusesTrains(err error) bool {
	for _, refusal := range []syscall.Errno{syscall.EIO, syscall.EINVAL, syscall.EMSGSIZE, syscall.ENOPROTOOPT, syscall.EOPNOTSUPP} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}
