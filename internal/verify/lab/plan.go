package lab

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// Topologies.
const (
	Line      = "line"       // nodes in a line, in chain order
	LeafSpine = "leaf-spine" // nodes are leaves, each linked to every spine
	Fabric    = "fabric"     // every host is linked to every spine: none depends on another
)

// Role is the purpose of a host.
type Role string

// Roles of hosts. [Lab.ChainRole] tells head and tail.
const (
	RoleNode       Role = "node"
	RoleClient     Role = "client"
	RoleController Role = "controller"
	RoleSpine      Role = "spine"
	RoleRoot       Role = "machine" // the machine's own namespace, so that commands there reach the nodes
)

// RootHost is the name of the machine itself in a lab.
const RootHost = "root"

const spineCount = 2

// maxClients and maxNodes keep drawings within a screen.
const (
	maxClients     = 64
	maxNodes       = 16 // of a managed lab, where they are not all in one chain
	maxControllers = 7
)

// Options describes a lab.
type Options struct {
	Name     string `json:"name"`
	Topology string `json:"topology"`
	Nodes    int    `json:"nodes"`
	Clients  int    `json:"clients"`
	// ClientAt is the node that clients attach to; empty: the first (line), one node per client (leaf-spine).
	ClientAt string `json:"client_at,omitempty"`
	Shards   int    `json:"shards"`  // a power of two; 0: one
	Direct   bool   `json:"direct"`  // links without wires: less work per frame, but no link faults
	NoRoot   bool   `json:"no_root"` // do not link the machine's own namespace to the lab
	// Offloads leaves checksum and segmentation offloads of direct links on, for hosts that run no
	// XDP.
	Offloads bool `json:"offloads,omitempty"`

	// Controllers makes the lab a managed one: this many hosts run controllers, which form chains
	// of the nodes that register.
	Controllers int `json:"controllers,omitempty"`
	// Idle lists nodes on which nothing starts until [Lab.StartNode].
	Idle []string `json:"idle,omitempty"`

	// Publish is the path where commands on this machine look for a cluster. Up puts a link to the
	// lab's cluster file there, unless another running cluster uses it. Empty: no link.
	Publish string `json:"publish,omitempty"`

	// Agent returns the command line of a node's agent; nil: a lab without agents. See
	// [Lab.ClusterFile], [Lab.PinDir] and [Lab.Ports] for its arguments.
	Agent func(l *Lab, h Host) []string `json:"-"`
	// Beside returns the command line of a service that starts before a node's agent, and ends with the lab; nil: none.
	Beside func(l *Lab, h Host) []string `json:"-"`
	// TLS says that agents and controllers are started with certificates.
	TLS bool `json:"tls,omitempty"`

	// Controller returns the command line of a controller. See [Lab.DataDir].
	Controller func(l *Lab, h Host) []string `json:"-"`
	// Owned ties the lab to this process: after the process has ended, the next Up of the same name
	// removes the remains.
	Owned bool `json:"-"`
	// Progress, if set, receives the current step.
	Progress func(step string) `json:"-"`
}

// AddToAgent appends arguments to the command line of every agent.
func (o *Options) AddToAgent(arguments ...string) {
	if agent := o.Agent; agent != nil {
		o.Agent = func(l *Lab, h Host) []string { return append(agent(l, h), arguments...) }
	}
}

// Host is one namespace of a lab.
type Host struct {
	Name string     `json:"name"`
	Role Role       `json:"role"`
	Addr netip.Addr `json:"addr"`
}

// Link joins two hosts.
type Link struct {
	A string `json:"a"`
	B string `json:"b"`
}

// String returns the link's name on the command line.
func (l Link) String() string { return l.A + "-" + l.B }

// Peer returns the other end of a link, and whether host is one of its ends.
func (l Link) Peer(host string) (string, bool) {
	switch host {
	case l.A:
		return l.B, true
	case l.B:
		return l.A, true
	}
	return "", false
}

// Plan is the layout of a lab: hosts, links and addresses.
type Plan struct {
	Subnet netip.Prefix `json:"subnet"`
	Hosts  []Host       `json:"hosts"`
	Links  []Link       `json:"links"`
}

// validName restricts lab names, which become parts of names of namespaces and devices. A dash
// would make those ambiguous.
var validName = regexp.MustCompile(`^[a-z][a-z0-9]{0,9}$`)

// Validate returns the first error in the options.
func (o *Options) Validate() error {
	if !validName.MatchString(o.Name) {
		return fmt.Errorf("name %q: a lower-case letter, then up to nine lower-case letters or digits", o.Name)
	}
	if o.Topology != Line && o.Topology != LeafSpine && o.Topology != Fabric {
		return fmt.Errorf("topology %q: want %s, %s or %s", o.Topology, Line, LeafSpine, Fabric)
	}
	if o.Controllers < 0 || o.Controllers > maxControllers {
		return fmt.Errorf("controllers: want 1 to %d, not %d", maxControllers, o.Controllers)
	}
	if o.Managed() && (o.Nodes < 1 || o.Nodes > maxNodes) {
		return fmt.Errorf("nodes: a managed lab has 1 to %d, not %d", maxNodes, o.Nodes)
	}
	if !o.Managed() && (o.Nodes < 1 || o.Nodes > wire.MaxChain) {
		return fmt.Errorf("nodes: a chain has 1 to %d, not %d", wire.MaxChain, o.Nodes)
	}
	if o.Clients < 0 || o.Clients > maxClients {
		return fmt.Errorf("clients: want 0 to %d, not %d", maxClients, o.Clients)
	}
	if o.Shards < 0 || o.Shards > wire.MaxShards || o.Shards&(o.Shards-1) != 0 {
		return fmt.Errorf("shards: want a power of two up to %d, not %d", wire.MaxShards, o.Shards)
	}
	for i := 1; i <= o.Nodes; i++ {
		if o.ClientAt == "" || o.ClientAt == nodeName(i) {
			return nil
		}
	}
	return fmt.Errorf("client-at: no node %q; nodes are n1 to n%d", o.ClientAt, o.Nodes)
}

// Managed reports whether controllers, rather than a static file, form the chains.
func (o *Options) Managed() bool { return o.Controllers > 0 }

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

func spineName(i int) string { return fmt.Sprintf("s%d", i) }

// third octet of a host's address, by role.
var octets = map[Role]byte{RoleNode: 0, RoleClient: 1, RoleSpine: 2, RoleRoot: 3, RoleController: 4}

// NewPlan lays out a lab in the /16 10.<octet>.0.0.
func NewPlan(o Options, octet byte) (*Plan, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, octet, 0, 0}), 16)}
	add := func(role Role, name string, i int) {
		p.Hosts = append(p.Hosts, Host{name, role, netip.AddrFrom4([4]byte{10, octet, octets[role], byte(i)})})
	}
	join := func(name string, peers []string) {
		for _, peer := range peers {
			p.Links = append(p.Links, Link{name, peer})
		}
	}
	for i := 1; i <= o.Nodes; i++ {
		add(RoleNode, nodeName(i), i)
		if o.Topology == Line && i > 1 {
			p.Links = append(p.Links, Link{nodeName(i - 1), nodeName(i)})
		}
	}
	for s := 1; s <= spineCount && o.Topology != Line; s++ {
		add(RoleSpine, spineName(s), s)
		for i := 1; i <= o.Nodes; i++ {
			p.Links = append(p.Links, Link{nodeName(i), spineName(s)})
		}
	}
	for i := 1; i <= o.Controllers; i++ {
		name := fmt.Sprintf("ctl%d", i)
		add(RoleController, name, i)
		join(name, o.controllerAttachments())
	}
	for i := 1; i <= o.Clients; i++ {
		name := fmt.Sprintf("c%d", i)
		add(RoleClient, name, i)
		join(name, o.attachments(i))
	}
	if !o.NoRoot {
		add(RoleRoot, RootHost, 1)
		join(RootHost, o.attachments(1))
	}
	return p, nil
}

// attachments returns the hosts that client i is linked to.
func (o *Options) attachments(i int) []string {
	switch {
	case o.ClientAt != "":
		return []string{o.ClientAt}
	case o.Topology == Fabric:
		return spines()
	case o.Topology == Line:
		return []string{nodeName(1)}
	}
	return []string{nodeName((i-1)%o.Nodes + 1)}
}

// controllerAttachments returns the hosts that controllers are linked to.
func (o *Options) controllerAttachments() []string {
	if o.Topology == Line {
		return []string{nodeName(1)}
	}
	return spines()
}

func spines() []string {
	var names []string
	for s := range spineCount {
		names = append(names, spineName(s+1))
	}
	return names
}

// Host returns a host by name.
func (p *Plan) Host(name string) (Host, bool) {
	for _, h := range p.Hosts {
		if h.Name == name {
			return h, true
		}
	}
	return Host{}, false
}

// Link returns a link by its name, with its ends in either order.
func (p *Plan) Link(name string) (Link, bool) {
	for _, l := range p.Links {
		if name == l.A+"-"+l.B || name == l.B+"-"+l.A {
			return l, true
		}
	}
	return Link{}, false
}

// With returns the hosts of a role in order.
func (p *Plan) With(role Role) []Host {
	var hosts []Host
	for _, h := range p.Hosts {
		if h.Role == role {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Peers returns the names of a host's neighbours in link order.
func (p *Plan) Peers(host string) []string {
	var peers []string
	for _, l := range p.Links {
		if peer, ok := l.Peer(host); ok {
			peers = append(peers, peer)
		}
	}
	return peers
}

// Cluster returns the configuration of the lab's nodes: one chain of all of them.
func (p *Plan) Cluster(shards int) *topology.Cluster {
	c := &topology.Cluster{Epoch: 1, Shards: max(shards, 1), Chains: [][]string{nil}}
	for _, h := range p.With(RoleNode) {
		c.Nodes = append(c.Nodes, h.node())
		c.Chains[0] = append(c.Chains[0], h.Name)
	}
	return c
}

// ManagedCluster returns the controllers' addresses for clients and agents.
func (p *Plan) ManagedCluster() *topology.Cluster {
	c := new(topology.Cluster)
	for _, h := range p.With(RoleController) {
		c.Controllers = append(c.Controllers, h.apiAddr())
	}
	return c
}

// node returns a host as a member of a cluster.
func (h Host) node() topology.Node {
	addr := netip.AddrPortFrom(h.Addr, wire.Port)
	return topology.Node{Name: h.Name, Addr: addr, API: topology.DefaultAPI(addr)}
}

// apiAddr returns the TCP address of a host's agent or controller.
func (h Host) apiAddr() string {
	if h.Role == RoleController {
		return netip.AddrPortFrom(h.Addr, topology.ControllerPort).String()
	}
	return h.node().APIAddr()
}
