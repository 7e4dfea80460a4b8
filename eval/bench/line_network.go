package bench

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/netcraq/netcraq/internal/platform/eintr"
)

// lineNetwork holds the hosts of a line and their links.
type lineNetwork struct {
	client *host
	hosts  []*host
	ports  [][]*port // by host
	near   []*port   // the client's ends of its links, one to each host
	far    []*port   // the hosts' ends of them
	wires  *wires    // nil: links are direct
}

// Names of a node's ports: to the client, to the node before it and to the node behind it.
const (
	toClient = "client"
	toLeft   = "left"
	toRight  = "right"
)

func lineAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 0, byte(i + 1)}) }

// clientAddr returns the client's address on its link to a node. Answers leave the line where
// requests enter it.
func clientAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 1, byte(i + 1)}) }

func newLineNetwork(n int, wired bool, undo *undo) (*lineNetwork, error) {
	l := &lineNetwork{ports: make([][]*port, n)}
	open := func() (*host, error) {
		h, err := newHost()
		if err == nil {
			undo.add(h.close)
		}
		return h, err
	}
	var err error
	if l.client, err = open(); err != nil {
		return nil, err
	}
	for range n {
		h, err := open()
		if err != nil {
			return nil, err
		}
		l.hosts = append(l.hosts, h)
	}
	if wired {
		if l.wires, err = newWires(undo); err != nil {
			return nil, err
		}
	}
	if err := l.link(); err != nil {
		return nil, err
	}
	return l, l.awaitUp()
}

// connect joins two hosts by a link or a wire. aSwitch and bSwitch are the numbers of the switches
// at its ends, counted from 1; the client has 0.
func (l *lineNetwork) connect(
	a *host, aName string, aAddr netip.Addr, aSwitch int, b *host, bName string, bAddr netip.Addr, bSwitch int,
) (*port, *port, error) {
	if l.wires == nil {
		return connect(a, aName, aAddr, b, bName, bAddr)
	}
	return l.wires.connect(wireEnd{a, aName, aAddr, aSwitch}, wireEnd{b, bName, bAddr, bSwitch})
}

// link makes the links, then the routes between hosts that are not neighbours.
func (l *lineNetwork) link() error {
	for i, h := range l.hosts {
		near, far, err := l.connect(l.client, fmt.Sprintf("to-n%d", i), clientAddr(i), 0, h, toClient, lineAddr(i), i+1)
		if err != nil {
			return err
		}
		l.near, l.far = append(l.near, near), append(l.far, far)
		l.ports[i] = append(l.ports[i], far)
		if i == 0 {
			continue
		}
		left, right, err := l.connect(l.hosts[i-1], toRight, lineAddr(i-1), i, h, toLeft, lineAddr(i), i+1)
		if err != nil {
			return err
		}
		l.ports[i-1] = append(l.ports[i-1], left)
		l.ports[i] = append(l.ports[i], right)
	}
	for i := range l.hosts {
		if err := l.route(i); err != nil {
			return err
		}
	}
	return nil
}

// route adds a host's routes to nodes and to the client's addresses, each through the neighbour on
// that side.
func (l *lineNetwork) route(i int) error {
	for j := range l.hosts {
		var by *port
		var next int
		switch {
		case j < i:
			by, next = l.portTo(i, toLeft), i-1
		case j > i:
			by, next = l.portTo(i, toRight), i+1
		default:
			continue // both are neighbours
		}
		for _, dst := range []netip.Addr{lineAddr(j), clientAddr(j)} {
			if dst == lineAddr(next) {
				continue
			}
			route := &netlink.Route{
				LinkIndex: by.index, Dst: single(dst), Gw: lineAddr(next).AsSlice(), Src: lineAddr(i).AsSlice(),
				Flags: int(netlink.FLAG_ONLINK),
			}
			if err := by.host.handle.RouteReplace(route); err != nil {
				return fmt.Errorf("route from node %d to %v: %w", i, dst, err)
			}
		}
	}
	return nil
}

func (l *lineNetwork) portTo(i int, name string) *port {
	for _, p := range l.ports[i] {
		if p.name == name {
			return p
		}
	}
	return nil
}

// awaitUp waits until sockets can send over all links.
func (l *lineNetwork) awaitUp() error {
	for i, ports := range l.ports {
		for _, p := range append(ports, l.near[i]) {
			if err := p.awaitUp(); err != nil {
				return err
			}
		}
	}
	return nil
}

// portNames returns the names of a host's ports to its neighbours in the line.
func (l *lineNetwork) portNames(i int) []string {
	var names []string
	for _, p := range l.ports[i] {
		names = append(names, p.name)
	}
	return names
}

// hopsForgotten is longer than nodes remember a next hop: 16 jiffies of the slowest kernel.
const hopsForgotten = 200 * time.Millisecond

// mute removes a host's routes to other nodes, so that packets to them are dropped. It returns a
// function that restores them.
func (l *lineNetwork) mute(i int) (restore func() error, err error) {
	handle := l.hosts[i].handle
	var before []netlink.Route
	for j := range l.hosts {
		if j == i {
			continue
		}
		routes, err := eintr.Value(func() ([]netlink.Route, error) {
			return handle.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: single(lineAddr(j))}, netlink.RT_FILTER_DST)
		})
		if err != nil {
			return nil, err
		}
		before = append(before, routes...)
		hole := &netlink.Route{Dst: single(lineAddr(j)), Type: routeBlackhole}
		if err := handle.RouteReplace(hole); err != nil {
			return nil, fmt.Errorf("cut node %d off from node %d: %w", i, j, err)
		}
	}
	time.Sleep(hopsForgotten)
	return func() error {
		for i := range before {
			if err := handle.RouteReplace(&before[i]); err != nil {
				return fmt.Errorf("restore a route: %w", err)
			}
		}
		return nil
	}, nil
}
