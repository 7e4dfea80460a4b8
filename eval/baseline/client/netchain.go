package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// ErrNotFound: the control plane gave the key no place at the node that answered.
var ErrNotFound = errors.New("the key has no place at this node")

// Value is a value that NetChain's compare-and-swap works on.
type Value [netchain.CompareBytes]byte

// NetChain is a client of one NetChain chain, for one goroutine. It puts the addresses of the
// chain into each query. If a node fails, only the network can route queries around it.
type NetChain struct {
	caller
	wide     bool
	down, up []netip.Addr // the chain from its head, and from its tail
	reads    estimate
	writes   estimate
	out      []byte
}

// NewNetChain makes a client of the chain, head first. Wide: with SEQ of 32 bits.
func NewNetChain(chain []netip.Addr, wide bool, o Options) (*NetChain, error) {
	if len(chain) < 1 || len(chain) > netchain.MaxList+1 {
		return nil, fmt.Errorf("a chain has 1 to %d nodes, not %d", netchain.MaxList+1, len(chain))
	}
	o.complete()
	c := &NetChain{
		caller: caller{options: o, in: make([]byte, netchain.MaxMessageBytes)},
		wide:   wide,
		down:   slices.Clone(chain),
		up:     slices.Clone(chain),
	}
	slices.Reverse(c.up)
	return c, nil
}

// Answer is the outcome of a query.
type Answer struct {
	Seq      uint32
	Value    []byte // valid until the client's next query
	Node     netip.Addr
	Attempts int
}

// Read reads a key, at the tail.
func (c *NetChain) Read(ctx context.Context, key netchain.Key) (Answer, error) {
	a, _, err := c.ask(
		ctx,
		&netchain.Message{Op: netchain.Read, Key: key},
		c.up,
		&c.reads,
		func(m *netchain.Message) bool {
			return m.Op == netchain.ReadReply
		},
	)
	return a, err
}

// Write writes a key, from the head on. An attempt that was answered too late may be carried out too.
func (c *NetChain) Write(ctx context.Context, key netchain.Key, value []byte) (Answer, error) {
	a, _, err := c.ask(
		ctx,
		&netchain.Message{Op: netchain.Write, Key: key, Value: value},
		c.down,
		&c.writes,
		func(m *netchain.Message) bool {
			return m.Op == netchain.WriteReply && bytes.Equal(m.Value, value)
		},
	)
	return a, err
}

// CompareAndSwap writes a key if it holds the expected value, and returns whether it did.
// Otherwise the answer has the current value. After more than one attempt this may be the value
// that an earlier attempt wrote.
func (c *NetChain) CompareAndSwap(ctx context.Context, key netchain.Key, expected, value Value) (Answer, bool, error) {
	a, op, err := c.ask(
		ctx,
		&netchain.Message{Op: netchain.CAS, Key: key, Value: append(expected[:], value[:]...)},
		c.down,
		&c.writes,
		func(m *netchain.Message) bool {
			return m.Op == netchain.CASFail || m.Op == netchain.WriteReply && bytes.Equal(m.Value, value[:])
		},
	)
	return a, err == nil && op == netchain.WriteReply, err
}

// ask sends a message along a chain.
func (c *NetChain) ask(
	ctx context.Context,
	m *netchain.Message,
	chain []netip.Addr,
	times *estimate,
	is func(*netchain.Message) bool,
) (Answer, netchain.Op, error) {
	m.Wide, m.List = c.wide, chain[1:]
	c.out = m.Append(c.out[:0])
	var a Answer
	var op netchain.Op
	to := netip.AddrPortFrom(chain[0], netchain.Port)
	attempts, err := c.call(ctx, &query{
		payload: c.out,
		to:      func(int) netip.AddrPort { return to },
		wait:    times.wait,
		took:    times.sample,
		judge: func(from netip.Addr, b []byte) bool {
			r, err := netchain.Decode(b)
			if err != nil || r.Key != m.Key || r.Wide != c.wide || r.Op != netchain.NotFound && !is(&r) {
				return false
			}
			a, op = Answer{Seq: r.Seq, Value: r.Value, Node: from}, r.Op
			return true
		},
	})
	a.Attempts = attempts
	if err == nil && op == netchain.NotFound {
		err = ErrNotFound
	}
	if err != nil {
		return a, op, fmt.Errorf("%v of %x: %w", m.Op, m.Key, err)
	}
	return a, op, nil
}

// Close frees the client's socket.
func (c *NetChain) Close() error { return c.close() }
