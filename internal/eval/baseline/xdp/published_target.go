package xdp

import (
	"encoding/binary"

	"github.com/netcraq/netcraq/internal/eval/baseline/published"
)

// PublishedTarget is the bytecode of NetCRAQ as published as a [baseline.Target]: executed by the kernel, one packet at a time.
type PublishedTarget struct {
	*bench
	node  *Published
	state published.State // as loaded
}

// NewPublishedTarget makes a target, which needs root.
func NewPublishedTarget() (*PublishedTarget, error) {
	b, err := newBench("pb_ingress", "pb_egress_test", int(published.Outcomes))
	if err != nil {
		return nil, err
	}
	return &PublishedTarget{bench: b}, nil
}

// Load implements [baseline.Target].
func (t *PublishedTarget) Load(s published.State) error {
	return t.do(func() error { return t.load(s) })
}

func (t *PublishedTarget) load(s published.State) error {
	if err := t.drop(); err != nil {
		return err
	}
	var err error
	t.node, err = loadPublished(s.Config, map[string]any{"nq_transit": uint8(0), "nq_test_ifindex": uint32(t.ifindex)})
	if err != nil {
		return err
	}
	t.program, t.state = t.node.program, s.Clone()
	for i := range s.Objects {
		if err := t.node.collection.Maps["pb_objects"].Put(uint32(i), t.node.object(&s.Objects[i])); err != nil {
			return err
		}
	}
	if err := t.use(); err != nil {
		return err
	}
	return t.node.outputs("pb_egress").Fill([]string{"near"})
}

// State implements [baseline.Target].
func (t *PublishedTarget) State() (published.State, error) {
	s := t.state.Clone()
	var err error
	if s.Counts, err = t.node.Counts(); err != nil {
		return s, err
	}
	for i, n := range t.state.Counts { // the kernel counts from zero
		s.Counts[i] += n
	}
	s.Counts[published.Transit] += t.transit
	for i := range s.Objects {
		b, err := t.node.collection.Maps["pb_objects"].LookupBytes(uint32(i))
		if err != nil {
			return s, err
		}
		o := &s.Objects[i]
		o.ReadIndex, o.WriteIndex = binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[8:])
		for j := range o.Cells {
			cell := b[objectHeaderBytes+j*published.ValueBytes:]
			binary.BigEndian.PutUint64(o.Cells[j][:8], binary.NativeEndian.Uint64(cell))
			binary.BigEndian.PutUint64(o.Cells[j][8:], binary.NativeEndian.Uint64(cell[8:]))
		}
	}
	return s, nil
}
