package control

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"time"
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
	heard := make([]time.Time, nodes)
	now := time.Now()
	for i := range heard {
		heard[i] = now.Add(Suspect) // twice the usual time at first
	}
	b := make([]byte, 16)
	for {
		first, silent := 0, heard[0]
		for i, at := range heard {
			if at.Before(silent) {
				first, silent = i, at
			}
		}
		if time.Since(silent) > Suspect {
			return first, nil
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := conn.SetReadDeadline(silent.Add(Suspect)); err != nil {
			return 0, err
		}
		n, err := conn.Read(b)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if err := drain(conn, heard, b); err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		default:
			note(heard, b[:n])
		}
	}
}

// drain records the heartbeats that have already arrived, so that a late controller reports no
// live node as failed.
func drain(conn *net.UDPConn, heard []time.Time, b []byte) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return err
		}
		n, err := conn.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		note(heard, b[:n])
	}
}

func note(heard []time.Time, b []byte) {
	if len(b) == 2 {
		if place := int(binary.BigEndian.Uint16(b)); place < len(heard) {
			heard[place] = time.Now()
		}
	}
}
