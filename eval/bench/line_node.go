package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	baselinep4 "github.com/netcraq/netcraq/eval/baseline/p4"
	baseline "github.com/netcraq/netcraq/eval/baseline/xdp"
	"github.com/netcraq/netcraq/eval/statistics"
	"github.com/netcraq/netcraq/wire"
)

// lineNode is a node of a line, of any protocol.
type lineNode interface {
	close()
	// writes returns the number of writes that the node applied, and of those that it dropped
	// because an object had no free cell.
	writes() (applied, dropped uint64, err error)
}

// chainNode is a node of NetChain.
type chainNode interface {
	Insert(keys []netchain.Key, seq uint32, value func(netchain.Key) []byte) error
}

// paperNode is a node of NetCRAQ as published.
type paperNode interface {
	Install(value func(key uint32) netcraqpaper.Value) error
}

// openNode starts node i in the calling thread's namespace.
func (l *Line) openNode(i int) (lineNode, error) {
	o := &l.options
	ports := l.net.portNames(i)
	if o.P4 {
		return l.openSwitch(i, baselinep4.Place{Ports: ports, Routes: l.net.routesOf(i)})
	}
	switch o.Protocol {
	case NetChain:
		n, err := baseline.OpenNetChain(l.netChainConfig(i), ports)
		if err != nil {
			return nil, err
		}
		return netChainNode{n}, nil
	case NetCRAQPaper:
		n, err := baseline.OpenNetCRAQPaper(l.netcraqPaperConfig(i), ports)
		if err != nil {
			return nil, err
		}
		return netcraqPaperNode{n}, nil
	}
	n := &NodeOptions{Plane: "xdp", Mode: "native", Keys: o.Keys, ValueBytes: o.ValueBytes, Relay: o.Relay}
	plane, err := openPlane(l.addrOf(i), l.net.ports[i], n)
	if err != nil {
		return nil, err
	}
	return &node{host: l.net.hosts[i], plane: plane, conditions: o.Conditions}, nil
}

func (l *Line) netChainConfig(i int) netchain.Config {
	o := &l.options
	return netchain.Config{
		Self: lineAddr(i), Wide: o.Seq32, Slots: o.Keys, ValueBytes: max(o.ValueBytes, netchain.CompareBytes), Groups: 1,
	}
}

func (l *Line) netcraqPaperConfig(i int) netcraqpaper.Config {
	o := &l.options
	c := netcraqpaper.Config{Self: lineAddr(i), Tail: lineAddr(o.Nodes - 1), Keys: uint32(o.Keys),
		Versions: uint32(o.Versions)}
	if i < o.Nodes-1 {
		c.Next = lineAddr(i + 1)
	}
	for j := range o.Nodes {
		if j != i {
			c.Group = append(c.Group, lineAddr(j))
		}
	}
	return c
}

// writes returns the writes that the node ordered or applied. A node has no limit of writes under
// way, so it drops none.
func (n *node) writes() (applied, dropped uint64, err error) {
	counters, err := n.plane.Counters()
	if err != nil {
		return 0, 0, err
	}
	for c, count := range counters {
		switch c.Outcome {
		case wire.OutcomeOrdered, wire.OutcomeApplied, wire.OutcomeCommitted:
			applied += count
		}
	}
	return applied, 0, nil
}

type netChainNode struct{ *baseline.NetChain }

func (n netChainNode) close() { n.Close() }

func (n netChainNode) writes() (applied, dropped uint64, err error) {
	return netChainWrites(n.Counts())
}

func netChainWrites(counts [netchain.Outcomes]uint64, failed error) (applied, dropped uint64, err error) {
	return counts[netchain.Ordered] + counts[netchain.Accepted], 0, failed
}

type netcraqPaperNode struct{ *baseline.NetCRAQPaper }

func (n netcraqPaperNode) close() { n.Close() }

func (n netcraqPaperNode) writes() (applied, dropped uint64, err error) {
	return netcraqPaperWrites(n.Counts())
}

func netcraqPaperWrites(counts [netcraqpaper.Outcomes]uint64, failed error) (applied, dropped uint64, err error) {
	applied = counts[netcraqpaper.CleanWrite] + counts[netcraqpaper.DirtyWrite] + counts[netcraqpaper.Committed]
	return applied, counts[netcraqpaper.Overflow], failed
}

// addrOf returns the address of a node with the port of its protocol.
func (l *Line) addrOf(i int) netip.AddrPort {
	port := uint16(wire.Port)
	switch l.options.Protocol {
	case NetChain:
		port = netchain.Port
	case NetCRAQPaper:
		port = netcraqpaper.Port
	}
	return netip.AddrPortFrom(lineAddr(i), port)
}

// fill configures the nodes as a chain and stores all objects: by writes to the head, or through
// the control plane if the protocol inserts that way.
func (l *Line) fill(ctx context.Context) error {
	o := &l.options
	switch o.Protocol {
	case NetChain:
		keys := make([]netchain.Key, len(l.keys))
		values := make(map[netchain.Key][]byte, len(l.keys))
		for i, k := range l.keys {
			keys[i] = netChainKey(k)
			values[keys[i]] = valueOf(k, o.ValueBytes)
		}
		for _, n := range l.nodes {
			if err := n.(chainNode).Insert(keys, 0, func(k netchain.Key) []byte { return values[k] }); err != nil {
				return err
			}
		}
		return nil
	case NetCRAQPaper:
		for _, n := range l.nodes {
			if err := n.(paperNode).Install(netcraqPaperValue); err != nil {
				return err
			}
		}
		return nil
	}
	nodes := make([]*node, o.Nodes)
	addrs := make([]netip.AddrPort, o.Nodes)
	for i, n := range l.nodes {
		nodes[i], addrs[i] = n.(*node), l.addrOf(i)
	}
	if err := join(nodes, addrs); err != nil {
		return err
	}
	return fillGently(ctx, l.keys, o.ValueBytes, lineFillBatch, l.way(0), l.net.near[0])
}

// lineFillBatch is the number of objects written to a line before its nodes may work.
const lineFillBatch = 8

func netChainKey(k wire.Key) (key netchain.Key) {
	binary.BigEndian.PutUint64(key[:], k.Hi)
	binary.BigEndian.PutUint64(key[8:], k.Lo)
	return key
}

// way returns the path of requests that enter the line at a node. Reads go to that node, or to the
// one that answers reads in the protocol.
func (l *Line) way(target int) way {
	reads := target
	if l.options.Protocol == NetChain {
		reads = l.options.Nodes - 1
	}
	return way{from: l.net.near[target], to: l.net.far[target], dest: l.addrOf(reads)}
}

// dialect returns the generator's dialect; writes go to the head.
func (l *Line) dialect() dialect {
	d := dialect{protocol: l.options.Protocol, wide: l.options.Seq32, writes: l.addrOf(0)}
	for i := 1; i < l.options.Nodes; i++ {
		d.lists[1] = append(d.lists[1], lineAddr(i))
		d.lists[0] = append(d.lists[0], lineAddr(l.options.Nodes-1-i))
	}
	return d
}

// makeDirty writes every object once while the tail cannot reach the other nodes. Its
// acknowledgements are lost; its answers to the client are not. The objects stay dirty until the
// next write, because no agent settles them.
func (l *Line) makeDirty(ctx context.Context) error {
	if l.options.Protocol == NetChain || l.options.Nodes == 1 || l.dirty {
		return nil
	}
	restore, err := l.mute(l.options.Nodes - 1)
	if err != nil {
		return err
	}
	d := l.dialect()
	err = l.writeAll(ctx, d)
	if err := errors.Join(err, restore()); err != nil {
		return fmt.Errorf("make objects dirty: %w", err)
	}
	l.dirty = true
	return nil
}

// writeAll writes every object once.
func (l *Line) writeAll(ctx context.Context, d dialect) error {
	l.unload()
	r := &request{op: wire.OpPut, valueBytes: l.options.ValueBytes, keys: l.keys, dialect: d}
	load, err := newLoad(r, l.way(0), l.net.near[0])
	if err != nil {
		return err
	}
	defer load.close()
	var t Counters
	for range fillPasses {
		if t, err = load.sendEach(ctx, len(l.keys), gentleBatch); err != nil || t.OK == t.Sent {
			return err
		}
	}
	return fmt.Errorf("the chain did not apply every write: %v", t)
}

// gentleBatch is so small that the tail's packets for it, an answer and an acknowledgement per
// node, fit a link's queue.
const gentleBatch = 8

// zipfSample is the length of the sequence of drawn keys; requests repeat it.
const zipfSample = 1 << 18

// zipfKeys draws keys by popularity: the k-th key with a probability proportional to 1/k^exponent.
func zipfKeys(keys []wire.Key, exponent float64) []wire.Key {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
	weights := statistics.NewZipf(len(keys), exponent)
	asked := make([]wire.Key, zipfSample)
	for i := range asked {
		asked[i] = keys[weights.Draw(rng.Float64())]
	}
	return asked
}
