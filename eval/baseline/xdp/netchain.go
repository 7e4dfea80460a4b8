package xdp

import (
	_ "embed" // the compiled program
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/eval/baseline/netchain"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
)

//go:embed netchain.o
var netchainObject []byte

// cellHeaderBytes is the length of struct nc_cell.
const cellHeaderBytes = 16

// NetChain is a switch of NetChain. Its register arrays and its index are those of
// eval/baseline/netchain.
type NetChain struct {
	*program
	config netchain.Config
	rules  map[netchain.Target]netchain.Rule
	taken  uint32 // places given to keys so far
}

// OpenNetChain starts a node on ports of the calling thread's namespace.
func OpenNetChain(c netchain.Config, ports []string) (*NetChain, error) {
	n, err := loadNetChain(c, nil)
	if err != nil {
		return nil, err
	}
	maps := n.collection.Maps
	if err := n.attach("nc_ingress",
		xdp.Outputs{Ports: maps["nq_ports"], Cells: maps["nq_port_cells"]}, ports); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// loadNetChain loads the program without attaching it; more are constants besides the configuration's.
func loadNetChain(c netchain.Config, more map[string]any) (*NetChain, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	constants := commonConstants(c.Self, netchain.Port)
	constants["nc_wide"] = uint8(0)
	if c.Wide {
		constants["nc_wide"] = uint8(1)
	}
	n := &NetChain{config: c, rules: make(map[netchain.Target]netchain.Rule)}
	constants["nc_cell_bytes"] = uint32(c.ValueBytes)
	constants["nc_groups"] = uint32(c.Groups)
	for name, value := range more {
		constants[name] = value
	}
	var err error
	n.program, err = load(netchainObject, constants, func(maps map[string]*ebpf.MapSpec) {
		maps["nc_index"].MaxEntries = uint32(c.Slots)
		maps["nc_cells"].MaxEntries = uint32(c.Slots)
		maps["nc_cells"].ValueSize = uint32(n.cellBytes())
	})
	return n, err
}

// cellBytes is the length of a place in the arrays.
func (n *NetChain) cellBytes() int { return cellHeaderBytes + (n.config.ValueBytes+7)&^7 }

// cell encodes a place.
func (n *NetChain) cell(c netchain.Cell) []byte {
	b := make([]byte, n.cellBytes())
	binary.NativeEndian.PutUint32(b[4:], c.Seq)
	binary.NativeEndian.PutUint32(b[8:], uint32(min(len(c.Value), n.config.ValueBytes)))
	copy(b[cellHeaderBytes:], c.Value)
	return b
}

// Insert is the control plane's insert: it gives keys that have none places, with a number and with values,
// which are cut to the length that the node has room for.
func (n *NetChain) Insert(keys []netchain.Key, seq uint32, value func(netchain.Key) []byte) error {
	if len(keys) > n.config.Slots-int(n.taken) {
		return fmt.Errorf("%d places are left for %d keys: make the arrays larger", n.config.Slots-int(n.taken),
			len(keys))
	}
	slots := make([]uint32, len(keys))
	for i := range slots {
		slots[i] = n.taken + uint32(i)
	}
	cells := rows(len(keys), n.cellBytes(),
		func(i int) []byte { return n.cell(netchain.Cell{Seq: seq, Value: value(keys[i])}) })
	if _, err := n.collection.Maps["nc_cells"].BatchUpdate(slots, cells, nil); err != nil {
		return fmt.Errorf("fill the register arrays: %w", err)
	}
	if _, err := n.collection.Maps["nc_index"].BatchUpdate(keys, slots, nil); err != nil {
		return fmt.Errorf("give keys places: %w", err)
	}
	n.taken += uint32(len(keys))
	return nil
}

// SetRule installs a failure rule, and the zero rule removes it.
func (n *NetChain) SetRule(t netchain.Target, r netchain.Rule) error {
	if r == (netchain.Rule{}) {
		delete(n.rules, t)
		if err := n.collection.Maps["nc_rules"].Delete(targetBytes(t)); err != nil {
			return err
		}
		return n.countRules()
	}
	var rule [8]byte
	binary.NativeEndian.PutUint32(rule[:], uint32(r.Action))
	if r.By.Is4() {
		by := r.By.As4()
		copy(rule[4:], by[:])
	}
	if err := n.collection.Maps["nc_rules"].Put(targetBytes(t), rule[:]); err != nil {
		return fmt.Errorf("install a failure rule: %w", err)
	}
	n.rules[t] = r
	return n.countRules()
}

// countRules tells the program whether it has to look for rules at all.
func (n *NetChain) countRules() error {
	return n.collection.Variables["nc_rule_count"].Set(uint32(len(n.rules)))
}

func targetBytes(t netchain.Target) []byte {
	to := t.To.As4()
	return binary.NativeEndian.AppendUint32(to[:], uint32(t.Group))
}

// Counts returns the number of packets of each outcome. Forwarded packets are not counted.
func (n *NetChain) Counts() (counts [netchain.Outcomes]uint64, err error) {
	return counts, n.counts(counts[:])
}

// Config returns the node's configuration.
func (n *NetChain) Config() netchain.Config { return n.config }

// Addr is the node's own address.
func (n *NetChain) Addr() netip.AddrPort { return netip.AddrPortFrom(n.config.Self, netchain.Port) }
