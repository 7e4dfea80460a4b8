package txn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	chainclient "github.com/netcraq/netcraq/eval/baseline/client"
	"github.com/netcraq/netcraq/eval/baseline/fabric"
	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/bench"
)

// chainLocks locks as NetChain's paper describes. CAS from zeros to the owner's id acquires a lock.
// CAS back releases it, so that only its owner can. There are no fencing tokens.
type chainLocks struct {
	owner   chainclient.Value
	clients []*chainclient.NetChain // one per lock requested at once
	open    func() (*chainclient.NetChain, error)
}

// ownerOf returns the id of a client.
func ownerOf(number int) (v chainclient.Value) {
	binary.BigEndian.PutUint64(v[8:], uint64(number)+1)
	return v
}

// chainKey returns the key of an item's lock.
func chainKey(item Item) (k netchain.Key) {
	binary.BigEndian.PutUint32(k[netchain.KeyBytes-4:], uint32(item))
	return k
}

// each runs do for items concurrently, with one client per item.
func (c *chainLocks) each(items []Item, do func(i int, with *chainclient.NetChain) error) error {
	for len(c.clients) < len(items) {
		one, err := c.open()
		if err != nil {
			return err
		}
		c.clients = append(c.clients, one)
	}
	return sideBySide(len(items), func(i int) error { return do(i, c.clients[i]) })
}

func (c *chainLocks) Take(ctx context.Context, items []Item, locks []Lock) error {
	return c.each(items, func(i int, with *chainclient.NetChain) (err error) {
		locks[i] = Lock{}
		if locks[i].Taken, err = with.Lock(ctx, chainKey(items[i]), c.owner); err != nil {
			return notTaken(items[i], err)
		}
		return nil
	})
}

func (c *chainLocks) Give(ctx context.Context, items []Item, _ []Lock) error {
	return c.each(items, func(i int, with *chainclient.NetChain) error {
		return given(items[i], with.Unlock(ctx, chainKey(items[i]), c.owner))
	})
}

func (c *chainLocks) Close() error {
	var failed []error
	for _, one := range c.clients {
		failed = append(failed, one.Close())
	}
	return errors.Join(failed...)
}

// netChain is a chain of NetChain nodes.
type netChain struct {
	chain    []netip.Addr
	listen   func() (*net.UDPConn, error)
	settings []string
	close    func() error
}

func (n *netChain) Session(_ context.Context, number int) (Session, error) {
	return &chainLocks{owner: ownerOf(number), open: func() (*chainclient.NetChain, error) {
		return chainclient.NewNetChain(n.chain, true, chainclient.Options{Listen: n.listen, Timeout: patience})
	}}, nil
}

func (n *netChain) Settings() []string { return n.settings }

func (n *netChain) Close() error { return n.close() }

// howNetChainLocks describes the locks in Settings.
const howNetChainLocks = "lock: CAS of zeros to the client's id; unlock: CAS back; SEQ of 32 bits; a query is " +
	"repeated after 1 to 50 ms, by how long answers take"

// openNetChain starts a chain with a free lock for every item.
func openNetChain(ctx context.Context, o *OpenOptions) (System, error) {
	switch o.Plane {
	case "xdp":
		return openNetChainXDP(ctx, o)
	case "soft":
		return openNetChainSoft(o)
	}
	return nil, &OptionError{fmt.Sprintf("--plane %q: want xdp or soft", o.Plane)}
}

func openNetChainXDP(ctx context.Context, o *OpenOptions) (System, error) {
	keys := make([]netchain.Key, o.Items)
	for i := range keys {
		keys[i] = chainKey(Item(i))
	}
	harness, err := bench.OpenNetChainSockets(ctx, chainNodes, keys, make([]byte, netchain.CompareBytes))
	if err != nil {
		return nil, err
	}
	return &netChain{chain: harness.Chain, listen: harness.Listen, close: harness.Close, settings: []string{
		fmt.Sprintf("a chain of %d nodes as published, on XDP, linked by veth pairs; each client has a UDP socket of its own",
			chainNodes),
		howNetChainLocks,
	}}, nil
}

func openNetChainSoft(o *OpenOptions) (System, error) {
	f, err := fabric.Open(0)
	if err != nil {
		return nil, err
	}
	n := &netChain{listen: f.Listen, close: f.Close, settings: []string{
		fmt.Sprintf("a chain of %d nodes as published, in a network of software switches behind a TUN device; each "+
			"client has a UDP socket of its own", chainNodes),
		howNetChainLocks,
	}}
	for i := range chainNodes {
		at := fabric.NodeAddr(i)
		node := new(netchain.Node)
		if err := node.Load(freeLocks(at, o.Items)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.Add(at, node)
		n.chain = append(n.chain, at)
	}
	return n, nil
}

// freeLocks returns the state of a node on which all locks are free.
func freeLocks(at netip.Addr, items int) netchain.State {
	s := netchain.State{
		Config: netchain.Config{Self: at, Wide: true, Slots: items, ValueBytes: netchain.CompareBytes, Groups: 1},
		Index:  make(map[netchain.Key]uint32, items), Cells: make([]netchain.Cell, items),
	}
	free := make([]byte, netchain.CompareBytes)
	for i := range items {
		s.Index[chainKey(Item(i))], s.Cells[i].Value = uint32(i), free
	}
	return s
}
