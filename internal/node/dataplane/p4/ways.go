package p4

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// way is how frames reach an address.
type way struct {
	port                int
	source, destination [6]byte
}

// ways are the routes of a switch: host routes to those it sends to, as the host's own tables have them.
type ways struct {
	node  *Node
	ports []string // by port number

	mu    sync.Mutex
	known map[netip.Addr]way // in the switch; zero: wanted, but not known
}

// wanted notes that the program sends to an address.
func (w *ways) wanted(to netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = make(map[netip.Addr]way)
	}
	if _, ok := w.known[to]; ok || len(w.known) >= mostWays && !w.forgetOne() {
		return
	}
	w.known[to] = way{}
}

// mostWays is the size of the program's table of routes. A host without a way there is reached through the host's network
// stack.
const mostWays = 4096

// forgetOne makes room for an address: it forgets one that no way is known to. It returns false if there is none.
func (w *ways) forgetOne() bool {
	for to, is := range w.known {
		if is == (way{}) {
			delete(w.known, to)
			return true
		}
	}
	return false
}

// refresh tells the switch of ways that are new, changed or gone.
func (w *ways) refresh() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var r Request
	changed := make(map[netip.Addr]way)
	for to, was := range w.known {
		is, err := w.look(to)
		if err != nil {
			is = way{}
		}
		if is == was {
			continue
		}
		changed[to] = is
		if is == (way{}) {
			r.Delete(routeEntry(nodeControl, to, way{}))
		} else {
			r.Insert(routeEntry(nodeControl, to, is))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	if err := w.node.sw.Do(&r); err != nil {
		return err
	}
	for to, is := range changed {
		w.known[to] = is
	}
	return nil
}

var errNoWay = errors.New("the host knows no way")

// look asks the host's routes and neighbours.
func (w *ways) look(to netip.Addr) (way, error) {
	ip := net.IP(to.AsSlice())
	routes, err := netlink.RouteGet(ip)
	if err != nil || len(routes) == 0 {
		return way{}, errors.Join(err, errNoWay)
	}
	hop := ip
	if routes[0].Gw != nil {
		hop = routes[0].Gw
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return way{}, err
	}
	found := way{port: slices.Index(w.ports, link.Attrs().Name)}
	if found.port < 0 || len(link.Attrs().HardwareAddr) != len(found.source) {
		return way{}, errNoWay
	}
	neighbours, err := netlink.NeighList(link.Attrs().Index, unix.AF_INET)
	if err != nil {
		return way{}, err
	}
	const usable = unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE | unix.NUD_PERMANENT | unix.NUD_NOARP
	for _, n := range neighbours {
		if n.IP.Equal(hop) && n.State&usable != 0 && len(n.HardwareAddr) == len(found.destination) {
			copy(found.source[:], link.Attrs().HardwareAddr)
			copy(found.destination[:], n.HardwareAddr)
			return found, nil
		}
	}
	return way{}, errNoWay
}

func routeEntry(prefix string, to netip.Addr, is way) Entry {
	return Entry{Table: prefix + tableRoutes, Match: []uint64{Address(to)}, Action: prefix + actionVia, Args: []Arg{
		{"port", uint64(is.port)}, {"source", MAC(is.source)}, {"destination", MAC(is.destination)},
	}}
}
