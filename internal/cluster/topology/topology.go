// Package topology is the shape of a cluster: its nodes, its shards and which chain serves a shard. It is pure.
package topology

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Cluster is the content of a cluster file: a static configuration, or the controllers that know the present one.
type Cluster struct {
	Name        string   `yaml:"name,omitempty" json:"name,omitempty"`               // with controllers: their cluster's; empty: any
	Controllers []string `yaml:"controllers,omitempty" json:"controllers,omitempty"` // TCP addresses; nothing else may be given then

	Epoch  uint32     `yaml:"epoch,omitempty" json:"epoch"`
	Shards int        `yaml:"shards,omitempty" json:"shards"` // a power of two, 1 to wire.MaxShards
	Nodes  []Node     `yaml:"nodes,omitempty" json:"nodes"`
	Chains [][]string `yaml:"chains,omitempty" json:"chains"` // names, head first; shard i is served by chain i mod len(Chains)
}

// Node is one member of the cluster.
type Node struct {
	Name string         `yaml:"name" json:"name"`
	Addr netip.AddrPort `yaml:"addr" json:"addr"` // data plane, UDP
	API  string         `yaml:"api,omitempty" json:"api,omitempty"`
}

// Load reads the file of a static cluster and checks it.
func Load(path string) (*Cluster, error) {
	c, err := Read(path)
	if err == nil && c.Managed() {
		return nil, fmt.Errorf("%s: it names controllers, and a static cluster with nodes and chains is wanted here", path)
	}
	return c, err
}

// Read reads a cluster file of either kind and checks it.
func Read(path string) (*Cluster, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse reads a cluster from YAML (or JSON, which is YAML) and checks it. Unknown fields are errors.
func Parse(text []byte) (*Cluster, error) {
	c := new(Cluster)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	switch err := decoder.Decode(c); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty: want a cluster file (docs/reference.md)")
	case err != nil:
		return nil, explainYAML(err)
	}
	return c, c.Validate()
}

// mostTypos are as many wrong lines as a cluster file may have. With more it is another file, which may have secrets.
const mostTypos = 3

// explainYAML says what is wrong with a cluster file without the names of Go's types.
func explainYAML(err error) error {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return fmt.Errorf("it is no cluster file: %w", err)
	}
	another := len(wrong.Errors) > mostTypos
	said := make([]string, len(wrong.Errors))
	for i, one := range wrong.Errors {
		said[i] = goNames.ReplaceAllString(one, "")
		another = another || strings.Contains(one, "into topology.Cluster")
	}
	if another {
		return errors.New("it is no cluster file, which has lines such as `epoch: 1` (docs/reference.md)")
	}
	return errors.New(strings.Join(said, "; "))
}

// goNames matches the parts of YAML's messages that name Go's types.
var goNames = regexp.MustCompile(` (in type|into) [\w.\[\]]+$`)

// Marshal writes the cluster as YAML, as [Parse] reads it.
func (c *Cluster) Marshal() ([]byte, error) { return yaml.Marshal(c) }

// Managed reports whether the cluster has controllers, which alone know its nodes and chains.
func (c *Cluster) Managed() bool { return len(c.Controllers) > 0 }

// Validate reports the first thing wrong with the cluster.
func (c *Cluster) Validate() error {
	if c.Managed() {
		return c.validateManaged()
	}
	if c.Shards < 1 || c.Shards > wire.MaxShards || c.Shards&(c.Shards-1) != 0 {
		return fmt.Errorf("shards: a power of two from 1 to %d is wanted, not %d", wire.MaxShards, c.Shards)
	}
	if c.Epoch == 0 {
		return errors.New("epoch: the first epoch is 1")
	}
	names, addrs := map[string]bool{}, map[netip.AddrPort]bool{}
	for _, n := range c.Nodes {
		if n.Name == "" || names[n.Name] {
			return fmt.Errorf("nodes: name %q is empty or stands twice", n.Name)
		}
		if !n.Addr.Addr().Is4() || n.Addr.Port() == 0 || addrs[n.Addr] {
			return fmt.Errorf("nodes: %s: %v is not an IPv4 address and port of its own", n.Name, n.Addr)
		}
		names[n.Name], addrs[n.Addr] = true, true
	}
	if len(c.Chains) == 0 {
		return errors.New("chains: at least one is needed")
	}
	for _, names := range c.Chains {
		members, err := c.members(names)
		if err != nil {
			return fmt.Errorf("chains: %w", err)
		}
		config := chain.ShardConfig{Epoch: c.Epoch, State: chain.Active, Members: members}
		if err := config.Validate(); err != nil {
			return fmt.Errorf("chains: %w", err)
		}
	}
	return nil
}

func (c *Cluster) validateManaged() error {
	if c.Epoch != 0 || c.Shards != 0 || len(c.Nodes) != 0 || len(c.Chains) != 0 {
		return errors.New("controllers: they know the epochs, shards, nodes and chains; leave these out, or the controllers")
	}
	for _, addr := range c.Controllers {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return fmt.Errorf("controllers: %q is not an address and port, such as 192.0.2.1:%d", addr, ControllerPort)
		}
	}
	return nil
}

// Node finds a node by name.
func (c *Cluster) Node(name string) (Node, bool) {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

func (c *Cluster) members(names []string) ([]netip.AddrPort, error) {
	members := make([]netip.AddrPort, 0, len(names))
	for _, name := range names {
		n, ok := c.Node(name)
		if !ok {
			return nil, fmt.Errorf("there is no node %q", name)
		}
		members = append(members, n.Addr)
	}
	return members, nil
}

// Chain returns the names of the nodes that serve a shard, head first.
func (c *Cluster) Chain(shard uint16) []string { return c.Chains[int(shard)%len(c.Chains)] }

// Members returns the addresses of the nodes that serve a shard, head first.
func (c *Cluster) Members(shard uint16) []netip.AddrPort {
	members, err := c.members(c.Chain(shard))
	if err != nil {
		panic("topology: Members of a cluster that was not validated: " + err.Error())
	}
	return members
}

// ShardConfig returns the named node's configuration of a shard; its state is None if the node is not in the chain.
func (c *Cluster) ShardConfig(name string, shard uint16) chain.ShardConfig {
	for i, member := range c.Chain(shard) {
		if member == name {
			return chain.ShardConfig{Epoch: c.Epoch, State: chain.Active, Self: i, Members: c.Members(shard)}
		}
	}
	return chain.ShardConfig{Epoch: c.Epoch}
}
