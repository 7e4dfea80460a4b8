package control

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// Times of failure detection, the same as those of this project's own controllers.
const (
	Beat    = 10 * time.Millisecond // between two signs of life of a node
	Suspect = 40 * time.Millisecond // of silence, after which a node counts as failed
)

// Port is the controller's port for heartbeats, and the source port of the nodes' agents.
const Port = 8890

// BeatBytes is the length of an agent's heartbeat, which holds the place of its node.
func BeatBytes(place int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(place)) }

// Watch receives heartbeats of nodes until one times out, and returns its place.
func Watch(ctx context.Context, conn *net.UDPConn, nodes int) (int, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	defer stop()
	heard := listen(time.Now(), nodes)
	b := make([]byte, 16)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		place, until := heard.first()
		if time.Now().After(until) {
			return place, nil
		}
		if err := conn.SetReadDeadline(until); err != nil {
			return 0, err
		}
		n, err := conn.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := heard.drain(conn, b); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		default:
			heard.note(time.Now(), b[:n])
		}
	}
}

// hearing is when each node was heard.
type hearing []time.Time

// listen begins to listen to nodes. At first each has twice the usual time.
func listen(now time.Time, nodes int) hearing {
	heard := make(hearing, nodes)
	for i := range heard {
		heard[i] = now.Add(Suspect)
	}
	return heard
}

// first returns the node that was not heard for the longest time, and until when it does not count as failed.
func (h hearing) first() (place int, until time.Time) {
	for i, at := range h {
		if at.Before(h[place]) {
			place = i
		}
	}
	return place, h[place].Add(Suspect)
}

// note takes a datagram.
func (h hearing) note(now time.Time, b []byte) {
	if len(b) == 2 {
		if place := int(binary.BigEndian.Uint16(b)); place < len(h) {
			h[place] = now
		}
	}
}

// drain takes the heartbeats that have already arrived, so that a late controller reports no live node as failed. A read
// of conn would not return them after its deadline.
func (h hearing) drain(conn *net.UDPConn, b []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for {
			n, err := eintr.Value(func() (int, error) {
				n, _, err := unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
				return n, err
			})
			if errors.Is(err, unix.EAGAIN) {
				return
			}
			if failed = err; failed != nil {
				return
			}
			h.note(time.Now(), b[:n])
		}
	})
	return errors.Join(err, failed)
}
