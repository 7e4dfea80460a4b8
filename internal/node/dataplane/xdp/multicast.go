package xdp

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/wire"
)

const (
	groupColumns  = wire.MaxChain + 1
	groupRowAll   = 0 // slots of every port
	devmapKeySize = 4
)

// devmapValue is struct bpf_devmap_val: where a clone leaves and which program writes it.
type devmapValue struct {
	Ifindex uint32
	Program uint32 // file descriptor
}

// Outputs are the tables that a program sends by: those of bpf/include/fib.h and bpf/include/multicast.h.
type Outputs struct {
	Ports  *ebpf.Map     // nq_ports
	Cells  *ebpf.Map     // nq_port_cells
	Groups *ebpf.Map     // nq_groups; nil for a program without multicast
	Egress *ebpf.Program // makes clones
}

// Fill tells the program the interfaces that it sends by, of the calling thread's namespace.
func (o Outputs) Fill(names []string) error {
	ports := make([]port, len(names))
	for i, name := range names {
		found, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("port %s: %w", name, err)
		}
		ports[i] = port{name: name, index: found.Index}
		copy(ports[i].mac[:], found.HardwareAddr)
	}
	if o.Groups == nil {
		return o.fillPorts(ports)
	}
	return o.fill(ports)
}

// fill makes the devmaps for broadcasts: for every port, and for all ports together, one for each number of clones.
func (o Outputs) fill(ports []port) error {
	for i, p := range ports {
		row := uint32(i + 1)
		if err := o.fillRow(row, ports[i:i+1]); err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
	}
	if err := o.fillRow(groupRowAll, ports); err != nil {
		return err
	}
	return o.fillPorts(ports)
}

func fillGroups(o *objects, ports []port) error {
	return Outputs{o.Ports, o.Cells, o.Groups, o.Egress}.fill(ports)
}

// fillPorts tells the program its ports; those of a predecessor that are none any more are forgotten.
func (o Outputs) fillPorts(ports []port) error {
	known := make(map[uint32]bool)
	for _, p := range ports {
		known[uint32(p.index)] = true
	}
	var index uint32
	var old nqPort
	var gone []uint32
	entries := o.Ports.Iterate()
	for entries.Next(&index, &old) {
		if !known[index] {
			gone = append(gone, index)
		}
	}
	if err := entries.Err(); err != nil {
		return err
	}
	for _, index := range gone {
		if err := o.Ports.Delete(index); err != nil {
			return err
		}
		if err := o.clearCell(index); err != nil {
			return err
		}
	}
	for i, p := range ports {
		known := nqPort{Row: uint32(i + 1), MAC: p.mac}
		if err := o.Ports.Put(uint32(p.index), known); err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
		if err := o.Cells.Put(uint32(p.index)%o.Cells.MaxEntries(), nqPortCell{uint32(p.index), known}); err != nil {
			return fmt.Errorf("port %s: %w", p.name, err)
		}
	}
	return nil
}

// clearCell forgets a port that is none any more.
func (o Outputs) clearCell(index uint32) error {
	var cell nqPortCell
	number := index % o.Cells.MaxEntries()
	if err := o.Cells.Lookup(number, &cell); err != nil || cell.Ifindex != index {
		return err
	}
	return o.Cells.Put(number, nqPortCell{})
}

func (o Outputs) fillRow(row uint32, ports []port) error {
	for clones := 1; clones <= wire.MaxChain; clones++ {
		group, err := newGroup(o.Egress, clones, ports)
		if err != nil {
			return err
		}
		err = o.Groups.Put(row*groupColumns+uint32(clones), group)
		group.Close()
		if err != nil {
			return fmt.Errorf("multicast group of %d: %w", clones, err)
		}
	}
	return nil
}

// newGroup makes a devmap that broadcasts the given number of clones to each of the ports.
func newGroup(egress *ebpf.Program, clones int, ports []port) (*ebpf.Map, error) {
	group, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "nq_group", Type: ebpf.DevMap, KeySize: devmapKeySize, ValueSize: 8, MaxEntries: uint32(max(1, clones*len(ports))),
	})
	if err != nil {
		return nil, err
	}
	slot := uint32(0)
	for _, p := range ports {
		for range clones {
			if err := group.Put(slot, devmapValue{uint32(p.index), uint32(egress.FD())}); err != nil {
				group.Close()
				return nil, fmt.Errorf("slot %d: %w", slot, err)
			}
			slot++
		}
	}
	return group, nil
}
