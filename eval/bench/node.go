package bench

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/node/dataplane/soft"
	"github.com/netcraq/netcraq/internal/node/dataplane/xdp"
	"github.com/netcraq/netcraq/wire"
)

// NodeOptions describe the node to measure.
type NodeOptions struct {
	Plane      string // "xdp", "soft" or "p4"
	Mode       string // of xdp: "auto", "native" or "generic"
	Keys       int
	Objects    int // capacity in objects; 0: twice the keys
	ValueBytes int
	Relay      bool // the tail relays its ACK up the chain instead of cloning it
	Conditions
}

// Planes that the benchmarks of single nodes treat in ways of their own.
const (
	planeP4  = "p4"
	planeXDP = "xdp"
)

// validate reports options that no node supports.
func (o *NodeOptions) validate() error {
	switch {
	case o.Keys < 1 || o.Keys > maxKeys:
		return wrongOption("--keys: 1 to %d, not %d", maxKeys, o.Keys)
	case o.ValueBytes < 0 || o.ValueBytes > wire.MaxValueBytes:
		return wrongOption("--value-bytes: 0 to %d, not %d", wire.MaxValueBytes, o.ValueBytes)
	}
	return nil
}

// maxKeys keeps the generator's key table small compared with a node's tables.
const maxKeys = 1 << 26

// sessions is the session capacity of a node: enough for every load of a benchmark that writes.
const sessions = 64 * sessionsPerCPU

func (o *NodeOptions) chainOptions() chain.Options {
	objects := o.Objects
	if objects == 0 {
		objects = 2 * o.Keys
	}
	return chain.Options{Shards: 1, CellBytes: max(o.ValueBytes, 8), MaxObjects: objects,
		MaxSessions: sessions, Relay: o.Relay}
}

// switchOptions are those of a node on a switch, whose tables have a fixed size.
func (o *NodeOptions) switchOptions() chain.Options {
	options := o.chainOptions()
	options.MaxObjects = min(options.MaxObjects, p4.MaxObjects)
	options.MaxSessions = min(options.MaxSessions, p4.MaxSessions)
	return options
}

// node is a node under load.
type node struct {
	host       *host
	plane      dataplane.Plane
	conditions Conditions
}

// openNode starts a node in the host on the ports. All ports have the node's address.
func openNode(h *host, addr netip.AddrPort, ports []*port, o *NodeOptions) (*node, error) {
	n := &node{host: h, conditions: o.Conditions}
	err := h.do(func() error {
		var err error
		n.plane, err = openPlane(addr, ports, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	return n, nil
}

// transit are the networks of all hosts: nodes of a line route for each other.
var transit = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}

func openPlane(addr netip.AddrPort, ports []*port, o *NodeOptions) (dataplane.Plane, error) {
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = p.name
	}
	switch o.Plane {
	case planeP4:
		return p4.Open(p4.Options{Node: addr, Ports: names, Chain: o.switchOptions()})
	case planeXDP:
		return xdp.Open(xdp.Options{
			Node: addr, Ports: names, Chain: o.chainOptions(), Mode: xdp.Mode(o.Mode), Transit: transit,
		})
	case "soft":
		return soft.Listen(addr, o.chainOptions())
	}
	return nil, wrongOption("--plane %q: want xdp, soft or p4", o.Plane)
}

// join configures the nodes as one chain, head first, for the only shard.
func join(nodes []*node, addrs []netip.AddrPort) error {
	for i := len(nodes) - 1; i >= 0; i-- {
		config := chain.ShardConfig{Epoch: epoch, State: chain.Active, Self: i, Members: addrs}
		err := errors.Join(nodes[i].plane.ConfigureAll(map[uint16]chain.ShardConfig{0: config}),
			nodes[i].plane.Grant(0, nodes[i].conditions.lease()))
		if err != nil {
			return fmt.Errorf("configure node %d: %w", i, err)
		}
	}
	return nil
}

// generic reports whether the node's XDP program runs in generic mode, after the kernel has built a
// socket buffer.
func (n *node) generic() bool { return n.plane.Info().Mode == "generic" }

func (n *node) close() { n.plane.Close() }

// Subject is the kind of node measured, and under which conditions.
type Subject struct {
	Plane string `json:"plane"`
	Mode  string `json:"mode"`
	Conditions
}

func (s Subject) describe() string { return s.Plane + " (" + s.Mode + "), " + s.conditions() }

func (n *node) subject() Subject {
	info := n.plane.Info()
	return Subject{Plane: info.Plane, Mode: info.Mode, Conditions: n.conditions}
}
