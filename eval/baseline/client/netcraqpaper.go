package client

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

// RetryAfter is how long a client of NetCRAQ as published waits for an answer before it turns to
// another node.
const RetryAfter = 50 * time.Millisecond

// NetCRAQPaper is a client of one chain of NetCRAQ as published, for one goroutine. Reads go to any
// node, writes to the first one; a node that does not answer in time loses the client to the next
// one of the chain.
type NetCRAQPaper struct {
	caller
	nodes  []netip.Addr // head first
	reader int          // where reads go now
	writer int          // and writes
	out    []byte
}

// NewNetCRAQPaper makes a client of the chain, head first, that begins to read at the node of that place.
func NewNetCRAQPaper(chain []netip.Addr, reader int, o Options) (*NetCRAQPaper, error) {
	if reader < 0 || reader >= len(chain) {
		return nil, fmt.Errorf("there is no node %d in a chain of %d", reader, len(chain))
	}
	o.complete()
	return &NetCRAQPaper{
		caller: caller{options: o, in: make([]byte, netcraqpaper.MessageBytes+1)},
		nodes:  slices.Clone(chain),
		reader: reader,
	}, nil
}

// Read reads an object.
func (c *NetCRAQPaper) Read(ctx context.Context, key uint32) (netcraqpaper.Value, error) {
	m := netcraqpaper.Message{Op: netcraqpaper.Read, Key: key}
	return c.ask(ctx, &m, &c.reader, func(r *netcraqpaper.Message) bool { return r.Op == netcraqpaper.ReadReply })
}

// Write writes an object. An attempt that was answered too late may be carried out too.
func (c *NetCRAQPaper) Write(ctx context.Context, key uint32, value netcraqpaper.Value) error {
	m := netcraqpaper.Message{Op: netcraqpaper.Write, Key: key, Value: value}
	_, err := c.ask(ctx, &m, &c.writer,
		func(r *netcraqpaper.Message) bool { return r.Op == netcraqpaper.Acknowledge && r.Value == value })
	return err
}

// ask sends a message to the node of a place, and turns to the next one after each attempt that
// stays without an answer. It stays with the node that has answered.
func (c *NetCRAQPaper) ask(
	ctx context.Context,
	m *netcraqpaper.Message,
	place *int,
	is func(*netcraqpaper.Message) bool,
) (netcraqpaper.Value, error) {
	c.out = m.Append(c.out[:0])
	var answer netcraqpaper.Value
	first := *place
	attempts, err := c.call(ctx, &query{
		payload: c.out,
		to: func(attempt int) netip.AddrPort {
			*place = (first + attempt) % len(c.nodes)
			return netip.AddrPortFrom(c.nodes[*place], netcraqpaper.Port)
		},
		wait: func(int) time.Duration { return RetryAfter },
		took: func(time.Duration) {},
		judge: func(_ netip.Addr, b []byte) bool {
			r, err := netcraqpaper.Decode(b)
			if err != nil || r.Key != m.Key || !is(&r) {
				return false
			}
			answer = r.Value
			return true
		},
	})
	if err != nil {
		return answer, fmt.Errorf("%v of object %d, %d attempts: %w", m.Op, m.Key, attempts, err)
	}
	return answer, nil
}

// Close frees the client's socket.
func (c *NetCRAQPaper) Close() error { return c.close() }
