package xdp

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/internal/baseline"
	"github.com/netcraq/netcraq/internal/baseline/netchain"
)

// NetChainTarget is the bytecode of NetChain as a [baseline.Target]: executed by the kernel, one packet at a time.
type NetChainTarget struct {
	*bench
	node    *NetChain
	state   netchain.State // as loaded: index and rules do not change
	transit uint64         // packets that passed without being counted
}

// Name implements [baseline.Target].
func (t *NetChainTarget) Name() string { return "the XDP program" }

// NewNetChainTarget makes a target, which needs root.
func NewNetChainTarget() (*NetChainTarget, error) {
	b, err := newBench()
	if err != nil {
		return nil, err
	}
	return &NetChainTarget{bench: b}, nil
}

// Load implements [baseline.Target].
func (t *NetChainTarget) Load(s netchain.State) error {
	return t.do(func() error { return t.load(s) })
}

func (t *NetChainTarget) load(s netchain.State) error {
	if err := t.drop(); err != nil {
		return err
	}
	var err error
	if t.node, err = loadNetChain(s.Config, map[string]any{"nq_transit": uint8(0)}); err != nil {
		return err
	}
	t.state = s.Clone()
	for slot, c := range s.Cells {
		if err := t.node.collection.Maps["nc_cells"].Put(uint32(slot), t.node.cell(c)); err != nil {
			return err
		}
	}
	for key, slot := range s.Index {
		if err := t.node.collection.Maps["nc_index"].Put(key, slot); err != nil {
			return err
		}
	}
	for target, rule := range s.Rules {
		if err := t.node.SetRule(target, rule); err != nil {
			return err
		}
	}
	t.transit = 0
	return t.use(t.node.collection.Programs["nc_ingress"])
}

// Step implements [baseline.Target].
func (t *NetChainTarget) Step(p baseline.Packet) (sent []baseline.Packet, err error) {
	err = t.do(func() error {
		sent, err = t.give(p)
		return err
	})
	return sent, err
}

func (t *NetChainTarget) give(p baseline.Packet) ([]baseline.Packet, error) {
	before, err := t.node.Counts()
	if err != nil {
		return nil, err
	}
	sent, err := t.step(t.node.collection.Programs["nc_ingress"], nil, p)
	if err != nil {
		return nil, err
	}
	after, err := t.node.Counts()
	if before == after {
		t.transit++
	}
	return sent, err
}

// State implements [baseline.Target].
func (t *NetChainTarget) State() (netchain.State, error) {
	s := t.state.Clone()
	var err error
	if s.Counts, err = t.node.Counts(); err != nil {
		return s, err
	}
	for i, n := range t.state.Counts { // the kernel counts from zero
		s.Counts[i] += n
	}
	s.Counts[netchain.Transit] += t.transit
	for slot := range s.Cells {
		b, err := t.node.collection.Maps["nc_cells"].LookupBytes(uint32(slot))
		if err != nil {
			return s, err
		}
		n := binary.NativeEndian.Uint32(b[8:])
		s.Cells[slot] = netchain.Cell{Seq: binary.NativeEndian.Uint32(b[4:]), Value: b[cellHeaderBytes : cellHeaderBytes+n]}
	}
	return s, nil
}

// drop closes the node that there is.
func (t *NetChainTarget) drop() error {
	if t.node == nil {
		return nil
	}
	err := t.node.Close()
	t.node = nil
	return err
}

// Close implements [baseline.Target].
func (t *NetChainTarget) Close() error {
	err := t.drop()
	t.close()
	return err
}
