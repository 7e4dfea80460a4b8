package xdp

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/wire"
)

// packetPrograms are those that handle packets, and so know the phase of tags.
var packetPrograms = []string{"nq_ingress", "nq_bundle", "nq_egress", "nq_grow"}

// SetTags implements [dataplane.Plane]. The phase is a constant of the programs, so that a node without tags does not
// look at it for each packet; others take their place, on the same tables.
func (p *Plane) SetTags(t wire.Tags) error {
	p.attaching.Lock()
	defer p.attaching.Unlock()
	o := p.chain
	o.Tags = t
	c := maps.Clone(p.constants)
	c["nq_tags"] = uint8(t)
	next, err := p.packetPrograms(c)
	if err != nil {
		return err
	}
	defer func() { // the old programs, or the new ones that are of no use
		for _, program := range next {
			program.Close()
		}
	}()
	p.outlet.tags.Store(uint32(t))
	if err := p.objects.Programs.Put(programBundle, next["nq_bundle"]); err != nil {
		return fmt.Errorf("the program for bundles: %w", err)
	}
	outputs := Outputs{p.objects.Ports, p.objects.Cells, p.objects.Groups, next["nq_egress"]}
	if err := outputs.fill(p.ports); err != nil {
		return err
	}
	for i := range p.ports {
		if err := p.ports[i].replace(next["nq_ingress"], next["nq_grow"]); err != nil {
			return err
		}
	}
	for _, pod := range p.pods {
		if err := pod.replace(next["nq_ingress"], next["nq_grow"]); err != nil {
			return err
		}
	}
	if err := p.lo.replace(next["nq_grow"]); err != nil {
		return fmt.Errorf("the loopback device: %w", err)
	}
	p.configuring.Lock() // whose holder may use the old programs, too
	p.running.Lock()
	for name, slot := range map[string]**ebpf.Program{
		"nq_ingress": &p.objects.Ingress, "nq_bundle": &p.objects.Bundle, "nq_egress": &p.objects.Egress, "nq_grow": &p.objects.Grow,
	} {
		*slot, next[name] = next[name], *slot
	}
	p.running.Unlock()
	p.configuring.Unlock()
	p.chain, p.constants = o, c
	return p.waitForPackets()
}

// packetPrograms loads the programs that handle packets with other constants, on the tables of those that run.
func (p *Plane) packetPrograms(c constants) (map[string]*ebpf.Program, error) {
	spec, err := prepare(p.chain, c)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string]*ebpf.ProgramSpec, len(packetPrograms))
	for _, name := range packetPrograms {
		wanted[name] = spec.Programs[name]
	}
	spec.Programs = wanted
	loaded, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: p.objects.maps()})
	if err != nil {
		return nil, explainLoad(err, p.pin)
	}
	defer loaded.Close()
	programs := make(map[string]*ebpf.Program, len(packetPrograms))
	for _, name := range packetPrograms {
		programs[name] = loaded.DetachProgram(name)
	}
	return programs, nil
}

// replace puts other programs in the place of those of a port.
func (p *port) replace(ingress, grow *ebpf.Program) error {
	if err := errors.Join(p.xdp.replace(ingress), p.grow.replace(grow)); err != nil {
		return fmt.Errorf("port %s: %w", p.name, err)
	}
	return nil
}

// replace puts another program in the place of the attached one. Before Linux 6.6 there is none at tc ingress, and an
// interface that is gone needs none.
func (a *attachment) replace(program *ebpf.Program) error {
	if a.link == nil {
		return nil
	}
	if err := a.link.Update(program); err != nil && !errors.Is(err, unix.ENOLINK) {
		return err
	}
	return nil
}
