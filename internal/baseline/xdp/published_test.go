package xdp

import (
	"encoding/binary"
	"testing"

	"github.com/netcraq/netcraq/internal/baseline"
	"github.com/netcraq/netcraq/internal/baseline/published"
)

// publishedMachine is the bytecode as a [baseline.Target].
type publishedMachine struct {
	*bench
	node    *Published
	state   published.State // as loaded
	transit uint64          // packets that passed without being counted
}

func (m *publishedMachine) Name() string { return "the XDP program" }

func (m *publishedMachine) Load(s published.State) error {
	m.Close()
	var err error
	m.node, err = loadPublished(s.Config, map[string]any{"nq_transit": uint8(0), "nq_test_ifindex": uint32(m.ifindex)})
	if err != nil {
		return err
	}
	m.state, m.transit = s.Clone(), 0
	for i := range s.Objects {
		if err := m.node.collection.Maps["pb_objects"].Put(uint32(i), m.node.object(&s.Objects[i])); err != nil {
			return err
		}
	}
	if err := m.use(m.node.collection.Programs["pb_ingress"]); err != nil {
		return err
	}
	return m.node.outputs("pb_egress").Fill([]string{"near"})
}

func (m *publishedMachine) Step(p baseline.Packet) ([]baseline.Packet, error) {
	before, err := m.node.Counts()
	if err != nil {
		return nil, err
	}
	programs := m.node.collection.Programs
	sent, err := m.step(programs["pb_ingress"], programs["pb_egress_test"], p)
	if err != nil {
		return nil, err
	}
	after, err := m.node.Counts()
	if before == after {
		m.transit++
	}
	return sent, err
}

func (m *publishedMachine) State() (published.State, error) {
	s := m.state.Clone()
	var err error
	if s.Counts, err = m.node.Counts(); err != nil {
		return s, err
	}
	for i, n := range m.state.Counts { // the kernel counts from zero
		s.Counts[i] += n
	}
	s.Counts[published.Transit] += m.transit
	for i := range s.Objects {
		b, err := m.node.collection.Maps["pb_objects"].LookupBytes(uint32(i))
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

func (m *publishedMachine) Close() error {
	if m.node == nil {
		return nil
	}
	return m.node.Close()
}

func TestPublishedVectors(t *testing.T) {
	runVectors(t, &publishedMachine{bench: newBench(t)}, published.Vectors)
}

func TestPublishedRandomPackets(t *testing.T) {
	m := &publishedMachine{bench: newBench(t)}
	defer m.Close()
	t.Logf("seeds from %d", *randomSeed)
	states := *randomPackets / packetsPerState
	if err := baseline.Compare[published.State](t.Context(), new(published.Node), m, published.Random(), *randomSeed, states, packetsPerState); err != nil {
		t.Fatal(err)
	}
}
