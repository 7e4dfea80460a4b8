// Package message converts the messages of [reconfig] between controllers and nodes to those of api/controller.proto, and
// back. It checks every message from outside completely.
package message

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// WindowBytes is the flow-control window of connections between controllers and nodes. With a constant one gRPC does
// not measure the connection by a ping after each message.
const WindowBytes = 1 << 20

// FromHeartbeat converts a heartbeat. The controller knows the node by its membership stream.
func FromHeartbeat(b *reconfig.Heartbeat) *controllerv1.Beat {
	out := &controllerv1.Beat{
		StampNs: b.Stamp, LeaseLeftUs: b.LeaseLeft.Microseconds(), Term: b.Term, Done: b.Done, Refused: b.Refused, Wiping: uint32(b.Wiping),
		TagsSince: b.TagsSince, NoTags: b.NoTags, ControllersSince: b.ControllersSince, Departing: b.Departing,
	}
	for _, c := range b.Copies {
		out.Copies = append(out.Copies, &controllerv1.Copied{
			Shard: uint32(c.Shard), Epoch: c.Epoch, Objects: c.Objects, Bytes: c.Bytes, Complete: c.Complete,
		})
	}
	return out
}

// Heartbeat converts a node's heartbeat.
func Heartbeat(node reconfig.NodeID, incarnation uint64, in *controllerv1.Beat) reconfig.Heartbeat {
	b := reconfig.Heartbeat{
		Node: node, Incarnation: incarnation, Stamp: in.GetStampNs(), LeaseLeft: time.Duration(in.GetLeaseLeftUs()) * time.Microsecond,
		Term: in.GetTerm(), Done: in.GetDone(), Refused: in.GetRefused(), Wiping: int(in.GetWiping()),
		TagsSince: in.GetTagsSince(), NoTags: in.GetNoTags(), ControllersSince: in.GetControllersSince(),
		Departing: in.GetDeparting(),
	}
	for _, c := range in.GetCopies() {
		b.Copies = append(b.Copies, reconfig.Copied{
			Shard: uint16(c.GetShard()), Epoch: c.GetEpoch(), Objects: c.GetObjects(), Bytes: c.GetBytes(), Complete: c.GetComplete(),
		})
	}
	return b
}

// FromGrant is a grant for a node.
func FromGrant(g reconfig.Grant) *controllerv1.Grant {
	return &controllerv1.Grant{
		StampNs: g.Stamp, LeaseUs: uint32(g.Lease.Microseconds()), Majority: uint32(g.Majority), Generation: g.SetID,
	}
}

// Grant converts a controller's grant.
func Grant(in *controllerv1.Grant) reconfig.Grant {
	return reconfig.Grant{
		Stamp: in.GetStampNs(), Lease: time.Duration(in.GetLeaseUs()) * time.Microsecond, Majority: int(in.GetMajority()),
		SetID: in.GetGeneration(),
	}
}

// FromOrder is an order for a node.
func FromOrder(o *reconfig.Order) *controllerv1.Order {
	var all groups
	for shard, order := range o.Configs {
		all.add(shard, &order)
	}
	return &controllerv1.Order{Term: o.Term, Number: o.Number, Configs: all.list}
}

// Order converts the leader's order to the node at self.
func Order(self netip.AddrPort, in *controllerv1.Order) (reconfig.Order, error) {
	o := reconfig.Order{Term: in.GetTerm(), Number: in.GetNumber(), Configs: make(map[uint16]reconfig.ShardOrder)}
	err := each(self, in.GetConfigs(), func(shard uint16, order reconfig.ShardOrder) bool {
		_, twice := o.Configs[shard]
		o.Configs[shard] = order
		return !twice
	})
	return o, err
}

// FromInventory converts an inventory. The controller knows the node by its membership stream.
func FromInventory(i *reconfig.Inventory) *controllerv1.Inventory {
	var all groups
	for shard, config := range i.Configs {
		all.add(shard, &reconfig.ShardOrder{Config: config})
	}
	return &controllerv1.Inventory{Term: i.Term, Configs: all.list}
}

// Inventory converts the inventory of the node whose data plane is at self.
func Inventory(node reconfig.NodeID, incarnation uint64, self netip.AddrPort, in *controllerv1.Inventory) (reconfig.Inventory, error) {
	i := reconfig.Inventory{Node: node, Incarnation: incarnation, Term: in.GetTerm(), Configs: make(map[uint16]chain.ShardConfig)}
	err := each(self, in.GetConfigs(), func(shard uint16, has reconfig.ShardOrder) bool {
		_, twice := i.Configs[shard]
		i.Configs[shard] = has.Config
		return !twice
	})
	return i, err
}

// FromRegistration converts a node's registration.
func FromRegistration(h *reconfig.Registration) *controllerv1.Hello {
	return &controllerv1.Hello{
		Name: h.Name, Addr: h.Addr.String(), Api: h.API, Labels: h.Labels, Capacity: h.Capacity, Incarnation: h.Incarnation,
		CellBytes: uint32(h.CellBytes), Cluster: h.Cluster, Shards: uint32(h.Shards),
	}
}

// Registration converts a node's registration. The leader judges it.
func Registration(in *controllerv1.Hello) (reconfig.Registration, error) {
	addr, err := netip.ParseAddrPort(in.GetAddr())
	if err != nil {
		return reconfig.Registration{}, fmt.Errorf("the node's address %q is not an address and port", in.GetAddr())
	}
	return reconfig.Registration{
		Name: in.GetName(), Addr: addr, API: in.GetApi(), Labels: in.GetLabels(), Capacity: in.GetCapacity(), Incarnation: in.GetIncarnation(),
		CellBytes: int(in.GetCellBytes()), Cluster: in.GetCluster(), Shards: int(in.GetShards()),
	}, nil
}

// FromSweep converts a node's report of its tombstones. The controller knows the node by its membership stream.
func FromSweep(s *reconfig.Sweep) *controllerv1.Sweep {
	out := &controllerv1.Sweep{Pressing: s.Pressing}
	for _, t := range s.Shards {
		out.Shards = append(out.Shards, &controllerv1.Tombstones{
			Shard: uint32(t.Shard), Epoch: t.Epoch, Count: t.Count, Highest: t.Highest, Drained: t.Drained,
		})
	}
	return out
}

// Sweep converts a node's report of its tombstones.
func Sweep(node reconfig.NodeID, incarnation uint64, in *controllerv1.Sweep) reconfig.Sweep {
	s := reconfig.Sweep{Node: node, Incarnation: incarnation, Pressing: in.GetPressing()}
	for _, t := range in.GetShards() {
		s.Shards = append(s.Shards, reconfig.Tombstones{
			Shard: uint16(t.GetShard()), Epoch: t.GetEpoch(), Count: t.GetCount(), Highest: t.GetHighest(), Drained: t.GetDrained(),
		})
	}
	return s
}

// alike are shards with the same configuration. It is comparable, as a list of members is not.
type alike struct {
	epoch   uint32
	state   chain.State
	learner bool
	members [wire.MaxChain]netip.AddrPort
	source  string
	fresh   bool
	keep    bool
	base    uint32
	born    uint32
	floor   uint64
	bar     uint64
}

// groups gathers shards that are configured alike.
type groups struct {
	list  []*controllerv1.NodeShards
	index map[alike]*controllerv1.NodeShards
}

func (g *groups) add(shard uint16, o *reconfig.ShardOrder) {
	c := &o.Config
	id := alike{
		epoch: c.Epoch, state: c.State, learner: c.Learner, source: o.Source, fresh: o.Fresh, keep: o.Keep, base: c.Base,
		born: o.Born, floor: c.Floor, bar: c.Bar,
	}
	copy(id.members[:], c.Members)
	group := g.index[id]
	if group == nil {
		group = &controllerv1.NodeShards{
			Epoch: c.Epoch, State: uint32(c.State), Learner: c.Learner, Source: o.Source, Fresh: o.Fresh,
			Keep: o.Keep, Base: c.Base, Born: o.Born, Floor: c.Floor, Bar: c.Bar,
		}
		for _, member := range c.Members {
			group.Members = append(group.Members, member.String())
		}
		g.list = append(g.list, group)
		if g.index == nil {
			g.index = make(map[alike]*controllerv1.NodeShards)
		}
		g.index[id] = group
	}
	group.Shards = append(group.Shards, uint32(shard))
}

// each visits the configurations of the node at self, shard by shard. visit returns false for a shard seen before.
func each(self netip.AddrPort, list []*controllerv1.NodeShards, visit func(uint16, reconfig.ShardOrder) bool) error {
	for _, group := range list {
		config, err := configOf(self, group)
		if err != nil {
			return err
		}
		order := reconfig.ShardOrder{
			Config: config, Source: group.GetSource(), Fresh: group.GetFresh(), Keep: group.GetKeep(), Born: group.GetBorn(),
		}
		for _, shard := range group.GetShards() {
			if shard >= wire.MaxShards {
				return fmt.Errorf("shard %d: there are at most %d", shard, wire.MaxShards)
			}
			if !visit(uint16(shard), order) {
				return fmt.Errorf("shard %d stands there twice", shard)
			}
		}
	}
	return nil
}

func configOf(self netip.AddrPort, in *controllerv1.NodeShards) (chain.ShardConfig, error) {
	config := chain.ShardConfig{
		Epoch: in.GetEpoch(), Learner: in.GetLearner(), State: chain.State(in.GetState()), Base: in.GetBase(),
		Floor: in.GetFloor(), Bar: in.GetBar(),
	}
	switch {
	case in.GetState() > uint32(chain.Frozen):
		return config, fmt.Errorf("state %d is unknown", in.GetState())
	case config.State == chain.None:
		return chain.ShardConfig{Epoch: in.GetEpoch(), Base: in.GetBase()}, nil
	case len(in.GetMembers()) > wire.MaxChain: // so that a long list is not even read
		return config, fmt.Errorf("a chain has 1 to %d members, not %d", wire.MaxChain, len(in.GetMembers()))
	}
	config.Self = -1
	for i, text := range in.GetMembers() {
		member, err := netip.ParseAddrPort(text)
		if err != nil {
			return config, fmt.Errorf("member %q is not an address and port", text)
		}
		if member == self {
			config.Self = i
		}
		config.Members = append(config.Members, member)
	}
	if config.Self < 0 {
		return config, fmt.Errorf("node %v is not a member of the chain %v", self, config.Members)
	}
	return config, config.Validate()
}
