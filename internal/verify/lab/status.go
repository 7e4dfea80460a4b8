package lab

import "net/netip"

// Status is the current state of a lab.
type Status struct {
	Name        string       `json:"name"`
	Topology    string       `json:"topology"`
	Subnet      netip.Prefix `json:"subnet"`
	ClusterFile string       `json:"cluster_file"`
	Owner       int          `json:"owner_pid,omitempty"` // the lab ends with this process
	Wires       bool         `json:"wires"`
	Hosts       []HostStatus `json:"hosts"`
	Faults
}

// HostStatus is one host of a lab.
type HostStatus struct {
	Host
	ChainRole string      `json:"chain_role,omitempty"`
	Peers     []string    `json:"peers"`
	Node      *NodeStatus `json:"node,omitempty"` // nodes and controllers only
}

// Health of a node or controller.
const (
	HealthOK      = "ok"
	HealthNoAgent = "no agent"   // the data plane answers without an agent
	HealthDead    = "dead"       // neither agent nor data plane, or no controller
	HealthNoPower = "no power"   // powered off: no packet reaches it
	HealthMute    = "no answer"  // the agent runs without answering
	HealthNone    = "no service" // the lab was made without agents
)

// NodeStatus is the status of a node. The lab fills in the agent's process and the ports; the
// caller asks the agent for the rest.
type NodeStatus struct {
	Health   string   `json:"health"`
	AgentPID int      `json:"agent_pid,omitempty"`
	XDPPorts []string `json:"xdp_ports"` // ports with an XDP program
	Log      string   `json:"log"`

	Plane    string            `json:"plane,omitempty"`
	Mode     string            `json:"mode,omitempty"`
	Why      string            `json:"why,omitempty"`
	Objects  uint64            `json:"objects"`
	Sessions uint64            `json:"sessions"`
	Counters map[string]uint64 `json:"counters,omitempty"` // messages by outcome
}

// Status reads the status that is visible from outside. Fields known only to agents stay empty.
func (l *Lab) Status() (*Status, error) {
	faults, err := l.Faults()
	if err != nil {
		return nil, err
	}
	s := &Status{Name: l.Name, Topology: l.options.Topology, Subnet: l.Plan.Subnet, ClusterFile: l.ClusterFile(),
		Wires: !l.options.Direct, Faults: faults}
	if owner, owned := l.Owner(); owned {
		s.Owner = owner.PID
	}
	for _, h := range l.Plan.Hosts {
		host := HostStatus{Host: h, Peers: l.Plan.Peers(h.Name)}
		if h.Role == RoleNode || h.Role == RoleController {
			if h.Role == RoleNode {
				host.ChainRole = l.ChainRole(h.Name)
			}
			if host.Node, err = l.nodeStatus(h, faults.off(h.Name)); err != nil {
				return nil, err
			}
		}
		s.Hosts = append(s.Hosts, host)
	}
	return s, nil
}

func (l *Lab) nodeStatus(h Host, off bool) (*NodeStatus, error) {
	host, node := h.Name, h.Role == RoleNode
	n := &NodeStatus{Log: l.LogFile(host), XDPPorts: []string{}}
	nl, err := l.handle(host)
	if err != nil {
		return nil, err
	}
	defer nl.Close()
	for _, port := range l.Ports(host) {
		dev, err := nl.LinkByName(port)
		if err != nil {
			return nil, err
		}
		if xdp := dev.Attrs().Xdp; xdp != nil && xdp.Attached {
			n.XDPPorts = append(n.XDPPorts, port)
		}
	}
	switch {
	case len(l.state.Commands[host]) == 0:
		n.Health = HealthNone
	case off:
		n.Health = HealthNoPower
	case l.AgentAlive(host):
		n.Health, n.AgentPID = HealthOK, l.Agent(host).PID
	case len(n.XDPPorts) > 0 && node:
		n.Health = HealthNoAgent
	default:
		n.Health = HealthDead
	}
	return n, nil
}
