package conformance

import (
	"bytes"
	"fmt"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// heartbeatWord is how vectors call heartbeats.
const heartbeatWord = "heartbeat"

// testHeart identifies the heartbeats for nodes in tests.
func testHeart() chain.Heart {
	return chain.Heart{Key: wire.Secret(bytes.Repeat([]byte{7, 11}, len(wire.Secret{})/2)), Node: 3,
		SetID: 1, Incarnation: 99}
}

// addHeart reads a line "heart node=... set=... incarnation=...".
func (c *Case) addHeart(w *words) {
	h := testHeart()
	h.Node = uint32(w.number("node", 32, uint64(h.Node)))
	h.SetID = uint32(w.number("set", 32, uint64(h.SetID)))
	h.Incarnation = w.number("incarnation", 64, h.Incarnation)
	c.State.Heart = &h
}

// heartbeat reads the fields of a heartbeat; its stamp is a time from now.
func (c *Case) heartbeat(w *words) []byte {
	t := testHeart()
	h := wire.Heartbeat{
		Answer: w.flag("answer"), Granter: uint8(w.number("granter", 8, 0)), Majority: uint8(w.number("majority", 8, 1)),
		Node:        uint32(w.number("node", 32, uint64(t.Node))),
		SetID:       uint32(w.number("set", 32, uint64(t.SetID))),
		Incarnation: w.number("incarnation", 64, t.Incarnation), Request: w.number("request", 64, defaultRequest),
		Stamp: Now + uint64(w.duration("stamp")), Lease: uint64(w.duration("lease")),
	}
	return h.Append(nil, &t.Key)
}

// duration takes a pair that names a duration.
func (w *words) duration(name string) time.Duration {
	s, ok := w.take(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.fail(err)
	}
	return d
}

// showHeartbeat shows a heartbeat of a node that has the tests' key.
func showHeartbeat(b []byte) (string, error) {
	var h wire.Heartbeat
	key := testHeart().Key
	if outcome := wire.ReadHeartbeat(b, &key, &h); outcome != wire.Accepted {
		return "", fmt.Errorf("a heartbeat that is %v: %x", outcome, b)
	}
	var l line
	l.word(heartbeatWord)
	if h.Answer {
		l.word("answer")
	}
	l.number("granter", uint64(h.Granter))
	l.number("majority", uint64(h.Majority))
	l.number("node", uint64(h.Node))
	l.number("set", uint64(h.SetID))
	l.number("incarnation", h.Incarnation)
	if h.Request != defaultRequest {
		l.number("request", h.Request)
	}
	l.word("stamp=" + time.Duration(h.Stamp-Now).String())
	switch {
	case h.Lease == 0:
	case h.Answer:
		l.word("lease-ends=" + time.Duration(h.Lease-Now).String())
	default:
		l.word("lease=" + time.Duration(h.Lease).String())
	}
	return l.String(), nil
}

// heartbeat makes a random one; most of them are meant for the node.
func (r *round) heartbeat() []byte {
	t := testHeart()
	h := wire.Heartbeat{
		Granter: uint8(r.rng.IntN(4)), Majority: uint8(1 + r.rng.IntN(3)), Node: t.Node, SetID: t.SetID,
		Incarnation: t.Incarnation,
		Request:     r.rng.Uint64N(1000), Stamp: Now - r.rng.Uint64N(uint64(time.Second)),
		Lease: r.rng.Uint64N(uint64(time.Second)),
	}
	if r.rng.IntN(4) == 0 { // a jump of the controller's clock, far beyond the time that a test takes
		h.Request += 1 << (40 + r.rng.IntN(20))
	}
	switch r.rng.IntN(20) {
	case 0:
		h.Node++
	case 1:
		h.SetID++
	case 2:
		h.Incarnation++
	case 3:
		h.Answer = true
	case 4:
		h.Stamp = Now + r.rng.Uint64N(1000)
	case 5:
		h.Lease = pick(r.rng, 0, ^uint64(0), ^h.Stamp, ^h.Stamp+1)
	case 6:
		h.Granter = pick[uint8](r.rng, 7, 8, 255)
	case 7:
		h.Majority = pick[uint8](r.rng, 0, 8, 9, 255)
	case 8:
		t.Key[r.rng.IntN(len(t.Key))]++
	}
	return h.Append(nil, &t.Key)
}
