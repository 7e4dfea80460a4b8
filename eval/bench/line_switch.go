package bench

import (
	"errors"

	baselinep4 "github.com/netcraq/netcraq/eval/baseline/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
)

// lineSwitch is a node of a line that is a P4 program.
type lineSwitch interface {
	// ChangeRoutes gives ways to the switch, and takes others from it.
	ChangeRoutes(add, remove []p4.Route) error
}

// asSwitch returns a node as a switch; ok is false for XDP programs.
func asSwitch(n lineNode) (on lineSwitch, ok bool) {
	if ours, is := n.(*node); is {
		on, ok = ours.plane.(lineSwitch)
		return on, ok
	}
	on, ok = n.(lineSwitch)
	return on, ok
}

type netChainSwitch struct{ *baselinep4.NetChain }

func (n netChainSwitch) close() { _ = n.Close() }

func (n netChainSwitch) writes() (applied, dropped uint64, err error) {
	return netChainWrites(n.Counts())
}

type netcraqPaperSwitch struct{ *baselinep4.NetCRAQPaper }

func (n netcraqPaperSwitch) close() { _ = n.Close() }

func (n netcraqPaperSwitch) writes() (applied, dropped uint64, err error) {
	return netcraqPaperWrites(n.Counts())
}

// openSwitch starts node i as a P4 program in the calling thread's namespace.
func (l *Line) openSwitch(i int, at baselinep4.Place) (lineNode, error) {
	o := &l.options
	switch o.Protocol {
	case NetChain:
		n, err := baselinep4.OpenNetChain(l.netChainConfig(i), at)
		if err != nil {
			return nil, err
		}
		return netChainSwitch{n}, nil
	case NetCRAQPaper:
		n, err := baselinep4.OpenNetCRAQPaper(l.netcraqPaperConfig(i), at)
		if err != nil {
			return nil, err
		}
		return netcraqPaperSwitch{n}, nil
	}
	n := &NodeOptions{Plane: planeP4, Keys: o.Keys, ValueBytes: o.ValueBytes, Relay: o.Relay}
	plane, err := p4.Open(p4.Options{Node: l.addrOf(i), Ports: at.Ports, Chain: n.switchOptions()})
	if err != nil {
		return nil, err
	}
	if err := plane.ChangeRoutes(at.Routes, nil); err != nil {
		return nil, errors.Join(err, plane.Close())
	}
	return &node{host: l.net.hosts[i], plane: plane}, nil
}

// leaveForwarding stops the kernels of the nodes from forwarding packets, which the switches do.
func (l *lineNetwork) leaveForwarding() error {
	for _, h := range l.hosts {
		err := h.do(func() error { return writeSettings(map[string]string{"/proc/sys/net/ipv4/ip_forward": "0"}) })
		if err != nil {
			return err
		}
	}
	return nil
}

// routesOf are the ways of node i to all other hosts of the line.
func (l *lineNetwork) routesOf(i int) []p4.Route {
	var routes []p4.Route
	add := func(j, number int, to *port) {
		by := l.ports[i][number]
		r := p4.Route{Port: number, Source: [6]byte(by.mac), Destination: [6]byte(to.mac)}
		r.To = clientAddr(j)
		routes = append(routes, r)
		if j != i {
			r.To = lineAddr(j)
			routes = append(routes, r)
		}
	}
	for number, by := range l.ports[i] {
		switch by.name {
		case toClient:
			add(i, number, l.near[i])
		case toLeft:
			for j := range i {
				add(j, number, l.portTo(i-1, toRight))
			}
		case toRight:
			for j := i + 1; j < len(l.hosts); j++ {
				add(j, number, l.portTo(i+1, toLeft))
			}
		}
	}
	return routes
}

// mute lets no packet of node i reach another node. It returns a function that ends this.
func (l *Line) mute(i int) (restore func() error, err error) {
	restore, err = l.net.mute(i)
	on, ok := asSwitch(l.nodes[i])
	if err != nil || !ok {
		return restore, err
	}
	var between []p4.Route
	for _, r := range l.net.routesOf(i) {
		for j := range l.nodes {
			if r.To == lineAddr(j) {
				between = append(between, r)
			}
		}
	}
	if err := on.ChangeRoutes(nil, between); err != nil {
		return nil, errors.Join(err, restore())
	}
	unmute := restore
	return func() error { return errors.Join(unmute(), on.ChangeRoutes(between, nil)) }, nil
}

// switchPace bounds the requests under way at P4 nodes, which lose frames if they get more than they handle.
var switchPace = pace{batch: 2, window: 8}
