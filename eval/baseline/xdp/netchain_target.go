package xdp

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
)

// NetChainTarget is the bytecode of NetChain as a [baseline.Target]: executed by the kernel, one
// packet at a time.
type NetChainTarget struct {
	*bench
	node  *NetChain
	state netchain.State // as loaded: index and rules do not change
}

// NewNetChainTarget makes a target, which needs root.
func NewNetChainTarget() (*NetChainTarget, error) {
	b, err := newBench("nc_ingress", "", int(netchain.Outcomes))
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
	t.program, t.state = t.node.program, s.Clone()
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
	return t.use()
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
		s.Cells[slot] = netchain.Cell{
			Seq:   binary.NativeEndian.Uint32(b[4:]),
			Value: b[cellHeaderBytes : cellHeaderBytes+n],
		}
	}
	return s, nil
}
