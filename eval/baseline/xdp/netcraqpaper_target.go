package xdp

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
)

// NetCRAQPaperTarget is the bytecode of NetCRAQ as published as a [baseline.Target]: executed by the
// kernel, one packet at a time.
type NetCRAQPaperTarget struct {
	*bench
	node  *NetCRAQPaper
	state netcraqpaper.State // as loaded
}

// NewNetCRAQPaperTarget makes a target, which needs root.
func NewNetCRAQPaperTarget() (*NetCRAQPaperTarget, error) {
	b, err := newBench("np_ingress", "np_egress_test", int(netcraqpaper.Outcomes))
	if err != nil {
		return nil, err
	}
	return &NetCRAQPaperTarget{bench: b}, nil
}

// Load implements [baseline.Target].
func (t *NetCRAQPaperTarget) Load(s netcraqpaper.State) error {
	return t.do(func() error { return t.load(s) })
}

func (t *NetCRAQPaperTarget) load(s netcraqpaper.State) error {
	if err := t.drop(); err != nil {
		return err
	}
	var err error
	t.node, err = loadNetCRAQPaper(s.Config,
		map[string]any{"nq_transit": uint8(0), "nq_test_ifindex": uint32(t.ifindex)})
	if err != nil {
		return err
	}
	t.program, t.state = t.node.program, s.Clone()
	for i := range s.Objects {
		if err := t.node.collection.Maps["np_objects"].Put(uint32(i), t.node.object(&s.Objects[i])); err != nil {
			return err
		}
	}
	if err := t.use(); err != nil {
		return err
	}
	return t.node.outputs("np_egress").Fill([]string{"near"})
}

// State implements [baseline.Target].
func (t *NetCRAQPaperTarget) State() (netcraqpaper.State, error) {
	s := t.state.Clone()
	var err error
	if s.Counts, err = t.node.Counts(); err != nil {
		return s, err
	}
	for i, n := range t.state.Counts { // the kernel counts from zero
		s.Counts[i] += n
	}
	s.Counts[netcraqpaper.Transit] += t.transit
	for i := range s.Objects {
		b, err := t.node.collection.Maps["np_objects"].LookupBytes(uint32(i))
		if err != nil {
			return s, err
		}
		o := &s.Objects[i]
		o.ReadIndex, o.WriteIndex = binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
		for j := range o.Cells {
			cell := b[objectHeaderBytes+j*netcraqpaper.ValueBytes:]
			binary.BigEndian.PutUint64(o.Cells[j][:8], binary.NativeEndian.Uint64(cell))
			binary.BigEndian.PutUint64(o.Cells[j][8:], binary.NativeEndian.Uint64(cell[8:]))
		}
	}
	return s, nil
}
