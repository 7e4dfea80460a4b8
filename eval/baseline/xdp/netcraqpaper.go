package xdp

import (
	_ "embed" // the compiled program
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/eval/baseline/netcraqpaper"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/wire"
)

//go:embed netcraqpaper.o
var netcraqPaperObject []byte

// objectHeaderBytes is the length of struct pb_object without its cells.
const objectHeaderBytes = 16

// NetCRAQPaper is a node of NetCRAQ as its papers describe it. Its registers are those of
// eval/baseline/netcraqpaper.
type NetCRAQPaper struct {
	*program
	config netcraqpaper.Config
}

// OpenNetCRAQPaper starts a node on ports of the calling thread's namespace.
func OpenNetCRAQPaper(c netcraqpaper.Config, ports []string) (*NetCRAQPaper, error) {
	n, err := loadNetCRAQPaper(c, nil)
	if err != nil {
		return nil, err
	}
	if err := n.attach("np_ingress", n.outputs("np_egress"), ports); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *NetCRAQPaper) outputs(egress string) xdp.Outputs {
	maps := n.collection.Maps
	return xdp.Outputs{
		Ports: maps["nq_ports"], Cells: maps["nq_port_cells"], Groups: maps["nq_groups"],
		Egress: n.collection.Programs[egress],
	}
}

// loadNetCRAQPaper loads the program without attaching it; more are constants besides the configuration's.
func loadNetCRAQPaper(c netcraqpaper.Config, more map[string]any) (*NetCRAQPaper, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	constants := commonConstants(c.Self, netcraqpaper.Port)
	constants["np_tail"] = c.Tail.As4()
	if c.Next.Is4() {
		constants["np_next"] = c.Next.As4()
	}
	constants["np_keys"] = c.Keys
	constants["np_versions"] = c.Versions
	constants["np_group_count"] = uint32(len(c.Group))
	var group [wire.MaxChain][4]byte
	for i, a := range c.Group {
		group[i] = a.As4()
	}
	constants["np_group"] = group
	for name, value := range more {
		constants[name] = value
	}
	n := &NetCRAQPaper{config: c}
	var err error
	n.program, err = load(netcraqPaperObject, constants, func(maps map[string]*ebpf.MapSpec) {
		maps["np_objects"].MaxEntries = c.Keys
		maps["np_objects"].ValueSize = uint32(n.objectBytes())
	})
	return n, err
}

func (n *NetCRAQPaper) objectBytes() int {
	return objectHeaderBytes + int(n.config.Versions)*netcraqpaper.ValueBytes
}

// object encodes an object's registers; the program keeps a value as two numbers.
func (n *NetCRAQPaper) object(o *netcraqpaper.Object) []byte {
	b := make([]byte, 0, n.objectBytes())
	b = binary.NativeEndian.AppendUint32(b, 0) // no writer inside
	b = binary.NativeEndian.AppendUint32(b, o.ReadIndex)
	b = binary.NativeEndian.AppendUint32(b, o.WriteIndex)
	b = binary.NativeEndian.AppendUint32(b, 0)
	for _, v := range o.Cells {
		b = binary.NativeEndian.AppendUint64(b, binary.BigEndian.Uint64(v[:8]))
		b = binary.NativeEndian.AppendUint64(b, binary.BigEndian.Uint64(v[8:]))
	}
	return b[:n.objectBytes()]
}

// Install sets the values of all objects on behalf of the control plane, as if the chain had
// acknowledged them.
func (n *NetCRAQPaper) Install(value func(key uint32) netcraqpaper.Value) error {
	numbers := make([]uint32, n.config.Keys)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	o := netcraqpaper.Object{WriteIndex: 1, Cells: make([]netcraqpaper.Value, n.config.Versions)}
	objects := rows(len(numbers), n.objectBytes(), func(i int) []byte {
		o.Cells[0] = value(uint32(i))
		return n.object(&o)
	})
	if _, err := n.collection.Maps["np_objects"].BatchUpdate(numbers, objects, nil); err != nil {
		return fmt.Errorf("install objects: %w", err)
	}
	return nil
}

// Counts returns the number of packets of each outcome. Forwarded packets are not counted.
func (n *NetCRAQPaper) Counts() (counts [netcraqpaper.Outcomes]uint64, err error) {
	return counts, n.counts(counts[:])
}

// Addr is the node's own address.
func (n *NetCRAQPaper) Addr() netip.AddrPort {
	return netip.AddrPortFrom(n.config.Self, netcraqpaper.Port)
}
