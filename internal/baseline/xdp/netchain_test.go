package xdp

import (
	"encoding/binary"
	"flag"
	"maps"
	"net/netip"
	"testing"

	"github.com/netcraq/netcraq/internal/baseline"
	"github.com/netcraq/netcraq/internal/baseline/netchain"
)

var (
	randomPackets = flag.Int("packets", 100_000, "random packets that each comparison with a machine takes")
	randomSeed    = flag.Uint64("seed", 1, "first seed of the comparisons")
)

// packetsPerState is how many random packets a random state gets.
const packetsPerState = 1000

// netChainMachine is the bytecode as a [baseline.Target].
type netChainMachine struct {
	*bench
	node    *NetChain
	state   netchain.State // as loaded: index and rules do not change
	transit uint64         // packets that passed without being counted
}

func (m *netChainMachine) Name() string { return "the XDP program" }

func (m *netChainMachine) Load(s netchain.State) error {
	m.Close()
	var err error
	if m.node, err = loadNetChain(s.Config, map[string]any{"nq_transit": uint8(0)}); err != nil {
		return err
	}
	m.state = s.Clone()
	for slot, c := range s.Cells {
		if err := m.node.collection.Maps["nc_cells"].Put(uint32(slot), m.node.cell(c)); err != nil {
			return err
		}
	}
	for key, slot := range s.Index {
		if err := m.node.collection.Maps["nc_index"].Put(key, slot); err != nil {
			return err
		}
	}
	for target, rule := range s.Rules {
		if err := m.node.SetRule(target, rule); err != nil {
			return err
		}
	}
	m.transit = 0
	return m.use(m.node.collection.Programs["nc_ingress"])
}

func (m *netChainMachine) Step(p baseline.Packet) ([]baseline.Packet, error) {
	before, err := m.node.Counts()
	if err != nil {
		return nil, err
	}
	sent, err := m.step(m.node.collection.Programs["nc_ingress"], nil, p)
	if err != nil {
		return nil, err
	}
	after, err := m.node.Counts()
	if before == after {
		m.transit++
	}
	return sent, err
}

func (m *netChainMachine) State() (netchain.State, error) {
	s := m.state.Clone()
	var err error
	if s.Counts, err = m.node.Counts(); err != nil {
		return s, err
	}
	for i, n := range m.state.Counts { // the kernel counts from zero
		s.Counts[i] += n
	}
	s.Counts[netchain.Transit] += m.transit
	for slot := range s.Cells {
		b, err := m.node.collection.Maps["nc_cells"].LookupBytes(uint32(slot))
		if err != nil {
			return s, err
		}
		n := binary.NativeEndian.Uint32(b[8:])
		s.Cells[slot] = netchain.Cell{Seq: binary.NativeEndian.Uint32(b[4:]), Value: b[cellHeaderBytes : cellHeaderBytes+n]}
	}
	return s, nil
}

func (m *netChainMachine) Close() error {
	if m.node == nil {
		return nil
	}
	return m.node.Close()
}

func TestNetChainVectors(t *testing.T) {
	runVectors(t, &netChainMachine{bench: newBench(t)}, netchain.Vectors)
}

func TestNetChainRandomPackets(t *testing.T) {
	for name, wide := range map[string]bool{"16 bits": false, "32 bits": true} {
		t.Run(name, func(t *testing.T) {
			m := &netChainMachine{bench: newBench(t)}
			defer m.Close()
			t.Logf("seeds from %d", *randomSeed)
			states := *randomPackets / packetsPerState
			if err := baseline.Compare[netchain.State](t.Context(), new(netchain.Node), m, netchain.Random(wide), *randomSeed, states, packetsPerState); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestNetChainInsert reads back what the control plane installs.
func TestNetChainInsert(t *testing.T) {
	newBench(t)
	c := netchain.Config{Self: netip.AddrFrom4([4]byte{10, 88, 0, 1}), Slots: 3, ValueBytes: 20, Groups: 1}
	n, err := loadNetChain(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	value := func(k netchain.Key) []byte { return k[:5] }
	if err := n.Insert([]netchain.Key{{1}, {2}}, 7, value); err != nil {
		t.Fatal(err)
	}
	if err := n.Insert([]netchain.Key{{3}, {4}}, 7, value); err == nil {
		t.Error("four keys found three places")
	}
	index := make(map[netchain.Key]uint32)
	var key netchain.Key
	var slot uint32
	entries := n.collection.Maps["nc_index"].Iterate()
	for entries.Next(&key, &slot) {
		index[key] = slot
	}
	if !maps.Equal(index, map[netchain.Key]uint32{{1}: 0, {2}: 1}) {
		t.Errorf("places: %v", index)
	}
}
