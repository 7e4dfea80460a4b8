package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/netcraq/netcraq/eval/baseline/client"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/xdp"
	"github.com/netcraq/netcraq/wire"
)

// NetChain names NetChain as published (eval/spec/baselines.md). It opens like a peer but is not one of
// [Names].
const NetChain = "netchain"

// Capacity of a node and its longest value: as much as the paper's switches stored at line rate.
const netchainKeys, netchainValueBytes = 200_000, 128

// netChain is a chain of nodes on XDP with clients on sockets.
type netChain struct {
	*network
	chain   []netip.Addr
	nodes   []*xdp.NetChain
	numbers atomic.Uint64 // ids of swaps and lock owners

	mu     sync.Mutex
	placed map[netchain.Key]bool
	idle   []*client.NetChain // each for one query at a time
}

func openNetChain(_ context.Context, n *network, _ *Options) (Store, error) {
	n.name = NetChain
	s := &netChain{network: n, placed: make(map[netchain.Key]bool)}
	s.numbers.Store(rand.Uint64() >> 1)
	for i := range n.hosts() {
		addr, host := n.host(i)
		err := n.lab.Do(host, func() error {
			node, err := xdp.OpenNetChain(netchain.Config{
				Self: addr, Wide: true, Slots: netchainKeys, ValueBytes: netchainValueBytes, Groups: 1}, n.lab.Ports(host))
			if err == nil {
				s.nodes = append(s.nodes, node)
				n.onClose(node.Close)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", host, err)
		}
		s.chain = append(s.chain, addr)
	}
	n.detail("netchain: a chain of %d nodes as published, on XDP, SEQ of 32 bits, room for %d keys of up to %d "+
		"bytes; head next to the client", n.hosts(), netchainKeys, netchainValueBytes)
	n.detail("reads: at the tail; writes: from the head; a query has a UDP socket of its own and is repeated after " +
		"1 to 50 ms, by how long answers take")
	n.detail("compare-and-swap: of values of 16 bytes, which are the version, in objects of their own; keys get " +
		"their places by the control plane when they are first written")
	n.detail("lock: CAS of zeros to the owner's id; unlock: CAS back; no time to live")
	return s, nil
}

// with lends a client to do.
func (s *netChain) with(do func(*client.NetChain) error) error {
	c, err := s.take()
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		s.idle = append(s.idle, c)
		s.mu.Unlock()
	}()
	return do(c)
}

func (s *netChain) take() (*client.NetChain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return c, nil
	}
	c, err := client.NewNetChain(s.chain, true, client.Options{})
	if err == nil {
		s.onClose(c.Close)
	}
	return c, err
}

// place gives a new key a place on every node, as the control plane does.
func (s *netChain) place(key netchain.Key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.placed[key] {
		return nil
	}
	for i := len(s.nodes) - 1; i >= 0; i-- {
		if err := s.nodes[i].Insert([]netchain.Key{key}, 0, func(netchain.Key) []byte { return value }); err != nil {
			return err
		}
	}
	s.placed[key] = true
	return nil
}

// ask runs do for a key. It first gives the key a place and a first value if it has none.
func (s *netChain) ask(name string, first []byte, do func(*client.NetChain, netchain.Key) error) error {
	hashed, err := wire.HashKey([]byte(name))
	if err != nil {
		return err
	}
	var key netchain.Key
	binary.BigEndian.PutUint64(key[:], hashed.Hi)
	binary.BigEndian.PutUint64(key[8:], hashed.Lo)
	err = s.with(func(c *client.NetChain) error { return do(c, key) })
	if first == nil || !errors.Is(err, client.ErrNotFound) {
		return err
	}
	if err := s.place(key, first); err != nil {
		return err
	}
	return s.with(func(c *client.NetChain) error { return do(c, key) })
}

func (s *netChain) Get(ctx context.Context, name string) (value []byte, err error) {
	err = s.ask(name, nil, func(c *client.NetChain, key netchain.Key) error {
		a, err := c.Read(ctx, key)
		value = append([]byte(nil), a.Value...)
		return err
	})
	if errors.Is(err, client.ErrNotFound) {
		return nil, ErrNotFound
	}
	return value, err
}

func (s *netChain) Put(ctx context.Context, name string, value []byte) error {
	if len(value) > netchainValueBytes {
		return fmt.Errorf("a value of %d bytes: NetChain's nodes have room for %d", len(value), netchainValueBytes)
	}
	return s.ask(name, value, func(c *client.NetChain, key netchain.Key) error {
		_, err := c.Write(ctx, key, value)
		return err
	})
}

// versioned returns the value that CompareAndSwap stores for a version.
func versioned(v Version) (stored client.Value) {
	binary.BigEndian.PutUint64(stored[8:], uint64(v))
	return stored
}

// CompareAndSwap ignores the value. NetChain has no versions: it compares values of 16 bytes. So
// CompareAndSwap stores the version itself, in an object of the name that Get and Put do not use.
func (s *netChain) CompareAndSwap(ctx context.Context, name string, version Version, _ []byte) (now Version,
	swapped bool, err error) {
	wanted := Version(s.numbers.Add(1))
	stored := versioned(wanted)
	err = s.ask("swap/"+name, make([]byte, netchain.CompareBytes), func(c *client.NetChain, key netchain.Key) error {
		var a client.Answer
		if a, swapped, err = c.CompareAndSwap(ctx, key, versioned(version), stored); err != nil {
			return err
		}
		if swapped = swapped || string(a.Value) == string(stored[:]); swapped {
			now = wanted
			return nil
		}
		if a.Attempts > 1 {
			return ErrUnknown
		}
		if len(a.Value) == netchain.CompareBytes {
			now = Version(binary.BigEndian.Uint64(a.Value[8:]))
		}
		return nil
	})
	return now, swapped, err
}

// netchainLock is a held lock.
type netchainLock struct {
	store *netChain
	name  string
	owner client.Value
}

func (s *netChain) Lock(ctx context.Context, name string) (Lock, error) {
	l := &netchainLock{store: s, name: "lock/" + name}
	binary.BigEndian.PutUint64(l.owner[8:], s.numbers.Add(1))
	taken := false
	err := s.ask(l.name, make([]byte, netchain.CompareBytes), func(c *client.NetChain, key netchain.Key) (err error) {
		taken, err = c.Lock(ctx, key, l.owner)
		return err
	})
	if err == nil && !taken {
		err = ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *netchainLock) Unlock(ctx context.Context) error {
	return l.store.ask(l.name, nil, func(c *client.NetChain, key netchain.Key) error {
		return c.Unlock(ctx, key, l.owner)
	})
}
