package xdp

import (
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Ports returns the state of the ports, and of the interfaces that the user named as such. It asks the kernel about the
// calling thread's network namespace.
func (p *Plane) Ports() []dataplane.Port {
	p.attaching.Lock()
	ports := make([]dataplane.Port, 0, len(p.ports))
	for i := range p.ports {
		at, err := p.ports[i].xdp.where()
		ports = append(ports, dataplane.Port{Name: p.ports[i].name, Attached: err == nil && at.index == p.ports[i].index})
	}
	p.attaching.Unlock()
	for _, name := range p.names {
		if !slices.ContainsFunc(ports, func(q dataplane.Port) bool { return q.Name == name }) {
			ports = append(ports, dataplane.Port{Name: name})
		}
	}
	for i := range ports {
		ports[i].Up = linkIsUp(ports[i].Name)
	}
	return ports
}

// linkIsUp reports whether an interface is up and has a link.
func linkIsUp(name string) bool {
	l, err := netlink.LinkByName(name)
	return err == nil && l.Attrs().OperState == netlink.OperUp
}
