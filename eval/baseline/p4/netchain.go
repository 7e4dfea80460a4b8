package p4

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	programs "github.com/netcraq/netcraq/eval/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// Limits of eval/p4/netchain.p4, and the names that p4c gives its parts.
const (
	chainSlots      = 65536
	chainValueBytes = p4.CellBytes
	wideOps         = 16

	tableIndex   = "index"
	tableRules   = "rules_rules"
	actionPlace  = "place"
	actionPrefix = "rules_" // and the rule's action
	actionSuffix = "_0"
	regSeq       = "cells_cell_seq"
	regBytes     = "cells_cell_bytes"
	regValue     = "cells_value" // and the part
)

// NetChainTarget is the program of NetChain as a [baseline.Target].
type NetChainTarget struct {
	*bench
	state netchain.State // as loaded: index and rules do not change
}

// NewNetChainTarget makes a target.
func NewNetChainTarget() (*NetChainTarget, error) {
	b, err := newBench(programs.NetChain)
	if err != nil {
		return nil, err
	}
	return &NetChainTarget{bench: b}, nil
}

// Load implements [baseline.Target].
func (t *NetChainTarget) Load(s netchain.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := chainFits(&s.Config); err != nil {
		return err
	}
	t.state = s.Clone()
	var r p4.Request
	for slot := range s.Cells {
		writeCell(&r, slot, &s.Cells[slot])
	}
	r.Write(regOutcomes, 0, s.Counts[:]...)
	return t.replace(chainEntries(&s), &r)
}

// chainFits says whether the program supports a configuration.
func chainFits(c *netchain.Config) error {
	switch {
	case c.Slots > chainSlots:
		return unsupported("%d places: the registers have %d", c.Slots, chainSlots)
	case c.ValueBytes > chainValueBytes:
		return unsupported("values of %d bytes: the registers have room for %d", c.ValueBytes, chainValueBytes)
	case c.Groups&(c.Groups-1) != 0:
		return unsupported("%d virtual groups: the program masks the key, so their number is a power of two", c.Groups)
	}
	return nil
}

func chainEntries(s *netchain.State) []p4.Entry {
	config := []p4.Arg{
		{Name: "self", Value: p4.Address(s.Self)}, {Name: "wide_ops"}, {Name: "seq_mask", Value: 1<<16 - 1},
		{Name: "most_bytes", Value: uint64(s.ValueBytes)}, {Name: "group_mask", Value: uint64(s.Groups - 1)},
	}
	if s.Wide {
		config[1].Value, config[2].Value = wideOps, 1<<32-1
	}
	entries := []p4.Entry{{Table: tableLocal, Match: []uint64{netchain.Port}, Action: actionNode, Args: config}}
	for key, slot := range s.Index {
		entries = append(entries, placeEntry(key, slot))
	}
	for target, rule := range s.Rules {
		e := p4.Entry{
			Table: tableRules, Match: []uint64{p4.Address(target.To), uint64(target.Group)},
			Action: actionPrefix + rule.Action.String() + actionSuffix,
		}
		if rule.Action == netchain.Replace {
			e.Args = []p4.Arg{{Name: "by", Value: p4.Address(rule.By)}}
		}
		entries = append(entries, e)
	}
	return entries
}

func placeEntry(key netchain.Key, slot uint32) p4.Entry {
	return p4.Entry{
		Table: tableIndex, Match: []uint64{binary.BigEndian.Uint64(key[:8]), binary.BigEndian.Uint64(key[8:])},
		Action: actionPlace, Args: []p4.Arg{{Name: "index", Value: uint64(slot)}},
	}
}

func writeCell(r *p4.Request, slot int, c *netchain.Cell) {
	r.Write(regSeq, slot, uint64(c.Seq))
	r.Write(regBytes, slot, uint64(len(c.Value)))
	value := p4.Split(c.Value)
	for part, array := range p4.ValueArrays {
		r.Write(regValue+array, slot, value[part])
	}
}

// State implements [baseline.Target].
func (t *NetChainTarget) State() (netchain.State, error) {
	s := t.state.Clone()
	seqs, lengths := make([]uint64, s.Slots), make([]uint64, s.Slots)
	values := make([][]uint64, len(p4.ValueArrays))
	var r p4.Request
	r.Read(regSeq, 0, seqs)
	r.Read(regBytes, 0, lengths)
	for part, array := range p4.ValueArrays {
		values[part] = make([]uint64, s.Slots)
		r.Read(regValue+array, 0, values[part])
	}
	r.Read(regOutcomes, 0, s.Counts[:])
	if err := t.sw.Do(&r); err != nil {
		return s, err
	}
	for slot := range s.Cells {
		var value p4.Value
		for part := range value {
			value[part] = values[part][slot]
		}
		s.Cells[slot] = netchain.Cell{Seq: uint32(seqs[slot]), Value: value.Join(int(lengths[slot]))}
	}
	return s, nil
}
