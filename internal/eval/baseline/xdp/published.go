package xdp

import (
	_ "embed" // the compiled program
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/eval/baseline/published"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/wire"
)

//go:embed published.o
var publishedObject []byte

// objectHeaderBytes is the length of struct pb_object without its cells.
const objectHeaderBytes = 16

// Published is a node of NetCRAQ as its papers describe it. Its registers are those of internal/eval/baseline/published.
type Published struct {
	*program
	config published.Config
}

// OpenPublished starts a node on ports of the calling thread's namespace.
func OpenPublished(c published.Config, ports []string) (*Published, error) {
	n, err := loadPublished(c, nil)
	if err != nil {
		return nil, err
	}
	if err := n.attach("pb_ingress", n.outputs("pb_egress"), ports); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

func (n *Published) outputs(egress string) xdp.Outputs {
	maps := n.collection.Maps
	return xdp.Outputs{Ports: maps["nq_ports"], Cells: maps["nq_port_cells"], Fans: maps["nq_fans"], Egress: n.collection.Programs[egress]}
}

// loadPublished loads the program without attaching it; more are constants besides the configuration's.
func loadPublished(c published.Config, more map[string]any) (*Published, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	constants := commonConstants(c.Self, published.Port)
	constants["pb_tail"] = c.Tail.As4()
	if c.Next.Is4() {
		constants["pb_next"] = c.Next.As4()
	}
	constants["pb_keys"] = c.Keys
	constants["pb_versions"] = c.Versions
	constants["pb_group_count"] = uint32(len(c.Group))
	var group [wire.MaxChain][4]byte
	for i, a := range c.Group {
		group[i] = a.As4()
	}
	constants["pb_group"] = group
	for name, value := range more {
		constants[name] = value
	}
	n := &Published{config: c}
	var err error
	n.program, err = load(publishedObject, constants, func(maps map[string]*ebpf.MapSpec) {
		maps["pb_objects"].MaxEntries = c.Keys
		maps["pb_objects"].ValueSize = uint32(n.objectBytes())
	})
	return n, err
}

func (n *Published) objectBytes() int {
	return objectHeaderBytes + int(n.config.Versions)*published.ValueBytes
}

// object encodes an object's registers; the program keeps a value as two numbers.
func (n *Published) object(o *published.Object) []byte {
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

// Install is what the control plane does to give all objects values: as if the chain had acknowledged them.
func (n *Published) Install(value func(key uint32) published.Value) error {
	numbers := make([]uint32, n.config.Keys)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	o := published.Object{WriteIndex: 1, Cells: make([]published.Value, n.config.Versions)}
	objects := rows(len(numbers), n.objectBytes(), func(i int) []byte {
		o.Cells[0] = value(uint32(i))
		return n.object(&o)
	})
	if _, err := n.collection.Maps["pb_objects"].BatchUpdate(numbers, objects, nil); err != nil {
		return fmt.Errorf("install objects: %w", err)
	}
	return nil
}

// Counts are how many packets had which outcome; what the node only passes on is not counted.
func (n *Published) Counts() (counts [published.Outcomes]uint64, err error) {
	return counts, n.counts(counts[:])
}

// Addr is the node's own address.
func (n *Published) Addr() netip.AddrPort { return netip.AddrPortFrom(n.config.Self, published.Port) }
