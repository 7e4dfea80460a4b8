// Package drill measures the real leader while it handles the failure of a node in a cluster of any size. The package
// simulates the nodes and the clock. It measures the leader's CPU time, its memory and the orders that it sends.
package drill

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// Options is the size of the cluster.
type Options struct {
	Nodes, Shards, Replicas, Zones int
}

// Result is the leader's work for the failure of one node.
type Result struct {
	Nodes    int `json:"nodes"`
	Shards   int `json:"shards"`
	Replicas int `json:"replicas"`
	Zones    int `json:"zones"`

	PlanS float64 `json:"plan_s"` // the leader's CPU time for the failure: FailoverS + PlacementS

	FailoverS     float64 `json:"failover_s"`     // the change that removes the node, orders to freeze, orders to continue
	PlacementS    float64 `json:"placement_s"`    // the plan of the copies, and the first orders for them
	FormS         float64 `json:"form_s"`         // planning all chains once
	MovedFraction float64 `json:"moved_fraction"` // share of all copies in the cluster that move
	FairFraction  float64 `json:"fair_fraction"`  // average share of one node
	ShardsChanged int     `json:"shards_changed"` // shards that lose a member
	HeldBytes     uint64  `json:"held_bytes"`     // the leader's memory before the failure
	SmallestShare float64 `json:"smallest_share"` // of any node after the repair, relative to the fair share
	LargestShare  float64 `json:"largest_share"`  // likewise
	OrdersSent    int     `json:"orders_sent"`    // to freeze and to continue
	OrderBytes    int     `json:"order_bytes"`    // size of these orders
	CopiesAtOnce  int     `json:"copies_at_once"` // copies that the repair begins with
}

// Validate returns an error for impossible options.
func (o *Options) Validate() error {
	switch {
	case o.Nodes < 2 || o.Nodes > 60_000:
		return fmt.Errorf("2 to 60,000 nodes can be simulated, not %d", o.Nodes)
	case o.Shards < 1 || o.Shards > wire.MaxShards || o.Shards&(o.Shards-1) != 0:
		return fmt.Errorf("the number of shards is a power of two from 1 to %d, not %d", wire.MaxShards, o.Shards)
	case o.Replicas < 2 || o.Replicas > wire.MaxChain:
		return fmt.Errorf("chains must have 2 to %d members to survive a failure, not %d", wire.MaxChain, o.Replicas)
	case o.Nodes <= o.Replicas:
		return fmt.Errorf("chains of %d members need more than %d nodes, so that one can fail", o.Replicas, o.Nodes)
	case o.Zones < 1 || o.Zones > o.Nodes:
		return fmt.Errorf("1 to %d zones can be made of %d nodes, not %d", o.Nodes, o.Nodes, o.Zones)
	}
	return nil
}

// controllers are the addresses of the controllers, which answer at once.
var controllers = []string{"c0", "c1", "c2"}

const (
	term      = 1
	heartbeat = 10 * time.Millisecond
	patience  = 10_000 // heartbeats until the leader must have finished all changes
)

// drill is a leader and the simulated nodes.
type drill struct {
	o        Options
	leader   *reconfig.Leader
	now      time.Duration
	dead     reconfig.NodeID
	done     []uint64 // per node: the last order that it applied
	inboxes  map[reconfig.NodeID]bool
	computed time.Duration // CPU time of the leader since it was last set to 0
	sent     []reconfig.Order
	changes  []reconfig.Change
	places   []reconfig.Place
}

// Run forms a cluster, fails a node and measures the leader.
func Run(o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &Result{Nodes: o.Nodes, Shards: o.Shards, Replicas: o.Replicas, Zones: o.Zones,
		FairFraction: 1 / float64(o.Nodes)}
	d := &drill{o: o, done: make([]uint64, o.Nodes+1), inboxes: make(map[reconfig.NodeID]bool)}
	before := heap()
	state, formed := d.form()
	r.FormS = formed.Seconds()
	d.leader = reconfig.NewLeader(term, state, reconfig.Options{}, d.now)
	if err := d.settle(); err != nil {
		return nil, err
	}
	r.HeldBytes = heap() - min(before, heap())
	if err := d.fail(r); err != nil {
		return nil, err
	}
	return r, d.repair(r)
}

// heap returns the memory in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// form returns the state of a cluster that has been running for long, and the time that planning it took.
func (d *drill) form() (*reconfig.State, time.Duration) {
	s := &reconfig.State{
		Settings: reconfig.Settings{Cluster: "drill", Shards: d.o.Shards, Replicas: d.o.Replicas, Spread: "zone",
			CellBytes: wire.MaxValueBytes,
			Heartbeat: heartbeat, Lease: 6 * heartbeat, Suspect: 4 * heartbeat},
		Nodes: make(map[reconfig.NodeID]*reconfig.Node, d.o.Nodes), Shards: make([]reconfig.Shard, d.o.Shards), Change: 1,
		Controllers: reconfig.FormedControllers(controllers...),
	}
	var candidates []topology.Candidate
	for i := 1; i <= d.o.Nodes; i++ {
		addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), wire.Port)
		n := &reconfig.Node{ID: reconfig.NodeID(i), Name: "n" + strconv.Itoa(i), Addr: addr,
			API: topology.DefaultAPI(addr), Capacity: 1,
			Labels: map[string]string{"zone": "z" + strconv.Itoa(i%d.o.Zones)}, Incarnation: uint64(i), Standing: reconfig.Up}
		s.Nodes[n.ID] = n
		candidates = append(candidates, topology.Candidate{ID: uint32(i), Name: n.Name, Labels: n.Labels, Capacity: 1})
	}
	chains := make([]topology.Chain, d.o.Shards)
	for i := range chains {
		chains[i].Want = d.o.Replicas
	}
	start := time.Now()
	plan := topology.NewRing(candidates, s.Settings.Spread).Plan(chains)
	took := time.Since(start)
	for i, members := range plan.After {
		s.Shards[i].Epoch = 1
		for _, id := range members {
			s.Shards[i].Members = append(s.Shards[i].Members, reconfig.NodeID(id))
		}
	}
	return s, took
}

// settle sends the inventories of all nodes and runs rounds until the leader has nothing to do.
func (d *drill) settle() error {
	configs := make(map[reconfig.NodeID]map[uint16]chain.ShardConfig)
	state := d.leader.State()
	for i := range state.Shards {
		c := chain.ShardConfig{Epoch: 1, State: chain.Active}
		for _, id := range state.Shards[i].Members {
			c.Members = append(c.Members, state.Nodes[id].Addr)
		}
		for place, id := range state.Shards[i].Members {
			if configs[id] == nil {
				configs[id] = make(map[uint16]chain.ShardConfig)
			}
			c.Self = place
			configs[id][uint16(i)] = c
		}
	}
	for id := reconfig.NodeID(1); int(id) <= d.o.Nodes; id++ {
		d.call(func(l *reconfig.Leader) {
			l.Inventory(d.now, reconfig.Inventory{Node: id, Incarnation: uint64(id), Term: term, Configs: configs[id]})
		})
	}
	for range patience {
		d.round()
		for _, p := range d.take() {
			plan := p.Plan()
			d.call(func(l *reconfig.Leader) { l.Planned(d.now, p.Number, plan) })
			if len(plan.Moves)+len(plan.New) == 0 {
				return nil
			}
		}
	}
	return errors.New("the leader does not finish its changes")
}

// call runs do on the leader, counts the time, and performs the leader's effects.
func (d *drill) call(do func(*reconfig.Leader)) {
	start := time.Now()
	do(d.leader)
	effects := d.leader.Effects()
	d.computed += time.Since(start)
	for _, effect := range effects {
		switch e := effect.(type) {
		case reconfig.Store:
			d.changes = append(d.changes, e.Change)
			d.call(func(l *reconfig.Leader) { l.Stored(d.now, e.Change.Number, true) })
		case reconfig.Send:
			if e.Node != d.dead {
				d.done[e.Node] = e.Order.Number
				d.inboxes[e.Node] = true
			}
			d.sent = append(d.sent, e.Order)
		case reconfig.LeaseWait:
			for _, controller := range controllers {
				d.call(func(l *reconfig.Leader) { l.LeaseLeft(d.now, controller, e.Change, 0) })
			}
		case reconfig.Place:
			d.places = append(d.places, e)
		}
	}
}

// round sends one heartbeat of every node.
func (d *drill) round() {
	d.now += heartbeat / 2
	for id := reconfig.NodeID(1); int(id) <= d.o.Nodes; id++ {
		if id != d.dead {
			d.heartbeat(id)
		}
	}
	d.call(func(l *reconfig.Leader) { l.Tick(d.now) })
}

func (d *drill) heartbeat(id reconfig.NodeID) {
	delete(d.inboxes, id)
	b := reconfig.Heartbeat{Node: id, Incarnation: uint64(id), Stamp: uint64(d.now), Term: term, Done: d.done[id]}
	d.call(func(l *reconfig.Leader) { l.Heartbeat(d.now, b) })
}

// take returns the requested plans and clears the list.
func (d *drill) take() []reconfig.Place {
	places := d.places
	d.places = nil
	return places
}

// fail stops the heartbeats of a node and runs until all its chains are active without it.
func (d *drill) fail(r *Result) error {
	d.dead = d.leader.State().Shards[0].Members[0]
	d.changes = nil
	for range patience {
		d.computed, d.sent = 0, nil
		d.round()
		if len(d.changes) > 0 {
			break
		}
	}
	if len(d.changes) == 0 {
		return errors.New("the leader does not detect the failed node")
	}
	r.ShardsChanged = len(d.changes[0].Shards)
	for len(d.inboxes) > 0 { // deliver the orders that follow from the change
		ids := make([]reconfig.NodeID, 0, len(d.inboxes))
		for id := range d.inboxes {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			d.heartbeat(id)
		}
	}
	if s := d.leader.Status(); s.Changing > 0 {
		return fmt.Errorf("%d chains are not active again", s.Changing)
	}
	r.FailoverS = d.computed.Seconds()
	r.OrdersSent = len(d.sent)
	for i := range d.sent {
		r.OrderBytes += proto.Size(message.FromOrder(&d.sent[i]))
	}
	return nil
}

// repair runs until the leader begins to fill the chains up.
func (d *drill) repair(r *Result) error {
	for range patience {
		d.computed = 0
		d.round()
		for _, p := range d.take() {
			start := time.Now()
			plan := p.Plan()
			took := time.Since(start)
			if len(plan.Moves) == 0 {
				continue
			}
			d.computed, d.changes = 0, nil
			d.call(func(l *reconfig.Leader) { l.Planned(d.now, p.Number, plan) })
			r.PlacementS = (took + d.computed).Seconds()
			r.PlanS = r.FailoverS + r.PlacementS
			for _, c := range d.changes {
				r.CopiesAtOnce += len(c.Shards)
			}
			d.judge(r, plan)
			return nil
		}
	}
	return errors.New("the leader does not repair the chains")
}

// judge computes the shares of the nodes after the plan.
func (d *drill) judge(r *Result, plan *topology.Plan) {
	load, moved := make(map[uint32]int), 0
	for _, m := range plan.Moves {
		if m.Join != 0 {
			moved++
		}
	}
	r.MovedFraction = float64(moved) / float64(d.o.Shards*d.o.Replicas)
	for _, members := range plan.After {
		for _, id := range members {
			load[id]++
		}
	}
	fair := float64(d.o.Shards*d.o.Replicas) / float64(d.o.Nodes-1)
	r.SmallestShare = float64(d.o.Shards)
	for id := uint32(1); int(id) <= d.o.Nodes; id++ {
		if reconfig.NodeID(id) != d.dead {
			r.SmallestShare = min(r.SmallestShare, float64(load[id])/fair)
			r.LargestShare = max(r.LargestShare, float64(load[id])/fair)
		}
	}
}
