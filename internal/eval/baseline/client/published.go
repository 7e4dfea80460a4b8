package client

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

// RetryAfter is how long a client of NetCRAQ as published waits for an answer before it turns to another node.
const RetryAfter = 50 * time.Millisecond

// Published is a client of one chain of NetCRAQ as published, for one goroutine. Reads go to any node, writes to the first one;
// a node that does not answer in time loses the client to the next one of the chain.
type Published struct {
	caller
	nodes  []netip.Addr // head first
	reader int          // where reads go now
	writer int          // and writes
	out    []byte
}

// NewPublished makes a client of the chain, head first, that begins to read at the node of that place.
func NewPublished(chain []netip.Addr, reader int, o Options) (*Published, error) {
	if reader < 0 || reader >= len(chain) {
		return nil, fmt.Errorf("there is no node %d in a chain of %d", reader, len(chain))
	}
	o.complete()
	return &Published{caller: caller{options: o, in: make([]byte, published.MessageBytes+1)}, nodes: slices.Clone(chain), reader: reader}, nil
}

// Read reads an object.
func (c *Published) Read(ctx context.Context, key uint32) (published.Value, error) {
	m := published.Message{Op: published.Read, Key: key}
	return c.ask(ctx, &m, &c.reader, func(r *published.Message) bool { return r.Op == published.ReadReply })
}

// Write writes an object. An attempt that was answered too late may be carried out too.
func (c *Published) Write(ctx context.Context, key uint32, value published.Value) error {
	m := published.Message{Op: published.Write, Key: key, Value: value}
	_, err := c.ask(ctx, &m, &c.writer, func(r *published.Message) bool { return r.Op == published.Acknowledge && r.Value == value })
	return err
}

// ask sends a message to the node of a place, and turns to the next one after each attempt that stays without an answer. It stays with the
// node that has answered.
func (c *Published) ask(ctx context.Context, m *published.Message, place *int, is func(*published.Message) bool) (published.Value, error) {
	c.out = m.Append(c.out[:0])
	var answer published.Value
	first := *place
	attempts, err := c.call(ctx, &query{
		payload: c.out,
		to: func(attempt int) netip.AddrPort {
			*place = (first + attempt) % len(c.nodes)
			return netip.AddrPortFrom(c.nodes[*place], published.Port)
		},
		wait: func(int) time.Duration { return RetryAfter },
		took: func(time.Duration) {},
		judge: func(_ netip.Addr, b []byte) bool {
			r, err := published.Decode(b)
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
func (c *Published) Close() error { return c.close() }
