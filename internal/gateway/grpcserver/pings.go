package grpcserver

import (
	"errors"
	"time"

	"golang.org/x/net/http2"
)

// pings is what a connection knows of its client's pings, as in gRPC's own server for Go. The connection's mu guards it.
type pings struct {
	least   time.Duration // between two of them while a call is under way; 0: there is no limit
	last    time.Time
	strikes int
	sent    bool // a header or data, since the last ping: clients ping to measure the network then
}

// Limits of gRPC.
const (
	pingsWithoutCalls = 2 * time.Hour // the least time between two
	maxStrikes        = 2
	tooManyPings      = "too_many_pings"
)

// LimitPings ends the connection when its client pings too often: more often than every least time while a call is under
// way, or every two hours while none is, three times without an answer in between. It is called before anything is read.
func (c *Connection) LimitPings(least time.Duration) { c.pings.least = least }

var errPings = errors.New("the client pings too often")

// tooMany takes a ping, and reports whether there were too many.
func (p *pings) tooMany(calls int, now time.Time) bool {
	last, least := p.last, p.least
	p.last = now
	switch {
	case least == 0:
		return false
	case p.sent:
		p.sent, p.strikes = false, 0
		return false
	case calls == 0:
		least = pingsWithoutCalls
	}
	if last.Add(least).After(now) {
		p.strikes++
	}
	return p.strikes > maxStrikes
}

// pong answers a PING.
func (c *conn) pong(data [8]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(appendFrame(c.out, http2.FramePing, http2.FlagPingAck, 0, len(data)), data[:]...)
	c.work.Signal()
	if c.pings.tooMany(len(c.calls), time.Now()) {
		return errPings
	}
	return nil
}
