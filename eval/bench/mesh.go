package bench

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/wire"
)

// mesh is a chain of nodes, each in its own host. There is a link between any two nodes, and one
// from the generator's host to each node. So every packet of the chain crosses exactly one link,
// and link counters count packets.
type mesh struct {
	gen   *host
	ports []*port // both ends of every link
	ways  []way   // from the generator to each node, head first
	nodes []*node
	undo  undo
}

// genAddr is the generator's address on all its ports, because the node that answers may differ
// from the node asked.
var genAddr = netip.AddrFrom4([4]byte{10, 78, 0, 254})

func meshAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 78, 0, byte(i + 1)}) }

func newMesh(n int, o *NodeOptions) (*mesh, error) {
	m, hosts, err := newLinkedHosts(n)
	if err != nil {
		return nil, err
	}
	if err := m.start(hosts, o); err != nil {
		m.undo.run()
		return nil, err
	}
	return m, nil
}

// newLinkedHosts makes a mesh without nodes.
func newLinkedHosts(n int) (m *mesh, hosts []*host, err error) {
	if n < 1 || n > wire.MaxChain {
		return nil, nil, wrongOption("--nodes: 1 to %d, not %d", wire.MaxChain, n)
	}
	m = new(mesh)
	defer func() {
		if err != nil {
			m.undo.run()
		}
	}()
	if m.gen, err = m.host(); err != nil {
		return nil, nil, err
	}
	hosts = make([]*host, n)
	for i := range hosts {
		if hosts[i], err = m.host(); err != nil {
			return nil, nil, err
		}
	}
	return m, hosts, m.link(hosts)
}

// awaitUp waits until sockets can send over all links.
func (m *mesh) awaitUp() error {
	for _, p := range m.ports {
		if err := p.awaitUp(); err != nil {
			return err
		}
	}
	return nil
}

func (m *mesh) host() (*host, error) {
	h, err := newHost()
	if err == nil {
		m.undo.add(h.close)
	}
	return h, err
}

// link joins the generator to each host and each host to all others.
func (m *mesh) link(hosts []*host) error {
	for i, h := range hosts {
		near, far, err := connect(m.gen, fmt.Sprintf("to-n%d", i), genAddr, h, "gen", meshAddr(i))
		if err != nil {
			return err
		}
		m.ports = append(m.ports, near, far)
		m.ways = append(m.ways, way{from: near, to: far, dest: netip.AddrPortFrom(far.addr, wire.Port)})
		for j, other := range hosts[:i] {
			near, far, err := connect(h, fmt.Sprintf("to-n%d", j), meshAddr(i), other, fmt.Sprintf("to-n%d", i), meshAddr(j))
			if err != nil {
				return err
			}
			m.ports = append(m.ports, near, far)
		}
	}
	return m.awaitUp()
}

// start starts a node on all ports of each host and configures them as a chain.
func (m *mesh) start(hosts []*host, o *NodeOptions) error {
	addrs := make([]netip.AddrPort, len(hosts))
	for i, h := range hosts {
		addrs[i] = m.ways[i].dest
		n, err := openNode(h, addrs[i], m.portsOf(h), o)
		if err != nil {
			return err
		}
		m.undo.add(n.close)
		m.nodes = append(m.nodes, n)
	}
	return join(m.nodes, addrs)
}

func (m *mesh) portsOf(h *host) []*port {
	var own []*port
	for _, p := range m.ports {
		if p.host == h {
			own = append(own, p)
		}
	}
	return own
}

// genPorts returns the generator's ports, one per node.
func (m *mesh) genPorts() []*port {
	ports := make([]*port, len(m.ways))
	for i, w := range m.ways {
		ports[i] = w.from
	}
	return ports
}

// packets returns the number of packets that have crossed all links.
func (m *mesh) packets() (uint64, error) {
	var sum uint64
	for _, p := range m.ports {
		n, err := p.received()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// newFilledMesh makes a mesh and writes every key of its chain once.
func newFilledMesh(ctx context.Context, nodes int, o *NodeOptions, progress Progress) (*mesh, []wire.Key, error) {
	m, err := newMesh(nodes, o)
	if err != nil {
		return nil, nil, err
	}
	keys := randomKeys(o.Keys)
	progress.say("writing %d keys of %d bytes", o.Keys, o.ValueBytes)
	if err := fill(ctx, keys, o.ValueBytes, m.ways[0], m.genPorts()...); err != nil {
		m.undo.run()
		return nil, nil, err
	}
	return m, keys, nil
}
