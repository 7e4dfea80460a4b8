package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// DefaultTimeout bounds a query whose context has no deadline.
const DefaultTimeout = time.Second

// ErrTimeout reports that no attempt was answered in time. A write may have been applied, or may
// be applied later.
var ErrTimeout = errors.New("no answer")

// Options configure a client. The zero value of every field is its default.
type Options struct {
	// Listen makes a UDP socket that takes answers from anywhere; default: on any port of this host.
	Listen func() (*net.UDPConn, error)
	// Timeout bounds a query whose context has no deadline.
	Timeout time.Duration
}

func (o *Options) complete() {
	if o.Listen == nil {
		o.Listen = func() (*net.UDPConn, error) { return net.ListenUDP("udp4", nil) }
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
}

// caller sends one query at a time and waits for its answer.
type caller struct {
	options Options
	conn    *net.UDPConn // nil: the next query makes one
	in      []byte
}

// query is one thing that is asked, as often as it takes.
type query struct {
	payload []byte
	to      func(attempt int) netip.AddrPort     // attempt counts from 0
	wait    func(attempt int) time.Duration      // for an answer, before the next attempt
	took    func(d time.Duration)                // called with the time of an answer to the only attempt
	judge   func(from netip.Addr, b []byte) bool // whether a datagram is the answer
}

// call returns when there is an answer that judge takes, and how many attempts were made.
func (c *caller) call(ctx context.Context, q *query) (attempts int, err error) {
	until := time.Now().Add(c.options.Timeout)
	if deadline, ok := ctx.Deadline(); ok {
		until = deadline
	}
	if c.conn == nil {
		if c.conn, err = c.options.Listen(); err != nil {
			return 0, err
		}
	}
	for {
		if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return attempts, c.retire(err)
		}
		sent := time.Now()
		if !sent.Before(until) {
			return attempts, c.retire(fmt.Errorf("%w to %d attempts", ErrTimeout, attempts))
		}
		to := q.to(attempts)
		if _, err := c.conn.WriteToUDPAddrPort(q.payload, to); err != nil && errors.Is(err, net.ErrClosed) {
			return attempts, err
		} // another error is the network's, as if the query had been lost
		answered, err := c.await(q, earlier(sent.Add(q.wait(attempts)), until))
		attempts++
		switch {
		case err != nil:
			return attempts, err
		case answered && attempts == 1:
			q.took(time.Since(sent))
			return attempts, nil
		case answered:
			return attempts, c.retire(nil) // an answer to another attempt may come yet
		}
	}
}

// await reads until there is an answer, or time is up.
func (c *caller) await(q *query, until time.Time) (bool, error) {
	if err := c.conn.SetReadDeadline(until); err != nil {
		return false, err
	}
	for {
		n, from, err := c.conn.ReadFromUDPAddrPort(c.in)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, nil
		case errors.Is(err, net.ErrClosed):
			return false, err
		case err == nil && q.judge(from.Addr(), c.in[:n]):
			return true, nil
		}
	}
}

// retire gives the socket up, so that late answers meet a closed port.
func (c *caller) retire(err error) error {
	return errors.Join(err, c.close())
}

func (c *caller) close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Limits of how long a client that learns how long answers take waits for one, and how long it does
// when it has no measurements.
const (
	leastWait = time.Millisecond
	maxWait   = 50 * time.Millisecond
	firstWait = 10 * time.Millisecond
)

// estimate is how long answers take: mean and deviation, smoothed as TCP does (RFC 6298).
type estimate struct{ mean, deviation time.Duration }

// sample takes one time.
func (e *estimate) sample(d time.Duration) {
	if e.mean == 0 {
		e.mean, e.deviation = d, d/2
		return
	}
	e.deviation += ((d - e.mean).Abs() - e.deviation) / 4
	e.mean += (d - e.mean) / 8
}

// wait returns the delay before the next attempt. It grows with each attempt, so that retries do
// not flood a slow node.
func (e *estimate) wait(attempt int) time.Duration {
	wait := firstWait
	if e.mean > 0 {
		wait = max(e.mean+4*e.deviation, leastWait)
	}
	return min(wait<<min(attempt, 6), maxWait)
}
