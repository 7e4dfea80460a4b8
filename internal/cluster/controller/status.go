package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/platform/build"
)

const (
	// statusEvery is the time between two messages of a status stream.
	statusEvery = 500 * time.Millisecond
	// askPeersWithin is how long a status waits for another controller to apply the newest change.
	askPeersWithin = 50 * time.Millisecond
	// hottest is how many busy shards are listed.
	hottest = 16
	// standingCordoned is that of a node which drains because its machine is cordoned.
	standingCordoned = "cordoned"
)

// Status is of the API.
func (c *Controller) Status(in *controllerv1.StatusRequest, stream grpc.ServerStreamingServer[controllerv1.StatusResponse]) error {
	for {
		out, err := c.status(stream.Context())
		if err == nil {
			err = stream.Send(out)
		}
		if err != nil || !in.GetFollow() {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(statusEvery):
		}
	}
}

// ask has something done with the leader, and waits for that.
func (c *Controller) ask(ctx context.Context, do func(*reconfig.Leader)) (*leading, error) {
	t := c.term.Load()
	if t == nil {
		return nil, c.notLeading()
	}
	done := make(chan struct{})
	t.inbox.call(func(l *reconfig.Leader) { do(l); close(done) })
	select {
	case <-done:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-t.ctx.Done():
		return nil, c.notLeading()
	}
}

func (c *Controller) status(ctx context.Context) (*controllerv1.StatusResponse, error) {
	var s reconfig.Status
	t, err := c.ask(ctx, func(l *reconfig.Leader) { s = l.Status() })
	state := c.view.clone()
	switch {
	case err != nil && state != nil && ctx.Err() == nil && c.store.Trouble() != "":
		return c.statusOfView(state), nil
	case err != nil:
		return nil, err
	}
	out := &controllerv1.StatusResponse{
		Cluster: state.Settings.Cluster, Leader: c.options.Address, Term: t.leadership.Term, Change: state.Change,
		Shards: uint32(state.Settings.Shards), Replicas: uint32(state.Settings.Replicas),
		ShardsWhole: uint32(s.FullyReplicated), ShardsShort: uint32(s.UnderReplicated), ShardsChanging: uint32(s.Changing),
		ShardsDown:    uint32(s.Down),
		ShardsCopying: uint32(s.Copying), ShardsCatchingUp: uint32(s.Catching), CopiedBytes: s.Copied, Notes: append(c.notes(state), s.Notes...),
		Moves: uint32(s.Moves), CellBytes: uint32(state.Settings.CellBytes),
		Times: fromTimes(state.Settings.Times()), Spread: state.Settings.Spread,
		Tags: state.Settings.Tags.On, TagPhase: state.Settings.Tags.Phase.String(), TagsAwait: s.TagsAwaited,
	}
	for i := range s.Nodes {
		if n := state.Nodes[s.Nodes[i].ID]; n != nil && n.Standing != reconfig.Removed {
			out.Nodes = append(out.Nodes, c.nodeStatus(n, &s.Nodes[i]))
		}
	}
	c.askPeers(ctx, state.Change)
	set := c.view.controllers()
	for _, address := range set.Addresses() {
		out.Controllers = append(out.Controllers, c.controllerStatus(address))
	}
	out.Hot, out.Keyspaces = c.hot(state), c.keyspaceStatus()
	return out, nil
}

// statusOfView returns the status without a leader: the last known state, and the reason.
func (c *Controller) statusOfView(state *reconfig.State) *controllerv1.StatusResponse {
	out := &controllerv1.StatusResponse{
		Cluster: state.Settings.Cluster, Change: state.Change, Shards: uint32(state.Settings.Shards), Replicas: uint32(state.Settings.Replicas),
		Times: fromTimes(state.Settings.Times()), Spread: state.Settings.Spread,
		Tags: state.Settings.Tags.On, TagPhase: state.Settings.Tags.Phase.String(),
		CellBytes: uint32(state.Settings.CellBytes), Notes: append([]string{"no controller leads that this one knows of"}, c.notes(state)...),
	}
	for _, n := range sortedNodes(state) {
		if n.Standing != reconfig.Removed {
			out.Nodes = append(out.Nodes, c.nodeStatus(n, &reconfig.NodeStatus{ID: n.ID}))
		}
	}
	return out
}

func (c *Controller) nodeStatus(n *reconfig.Node, s *reconfig.NodeStatus) *controllerv1.NodeStatus {
	out := &controllerv1.NodeStatus{
		Id: uint32(n.ID), Name: n.Name, Addr: n.Addr.String(), Api: n.API, Standing: n.Standing.String(), Labels: n.Labels, Capacity: n.Capacity,
		Heads: uint32(s.Heads), Shards: uint32(s.Shards), Learning: uint32(s.Learning), Trouble: s.Trouble,
		SilentMs: uint32(max(0, s.Silent).Milliseconds()), Version: c.nodes.version(n.ID),
	}
	if n.Cordoned && n.Standing == reconfig.Draining {
		out.Standing = standingCordoned
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	if rate, last, ok := c.loads.Node(c.now(), n.ID); ok {
		out.Reads, out.Writes, out.Objects, out.MaxObjects = uint64(rate.Reads), uint64(rate.Writes), last.Objects, last.MaxObjects
	}
	return out
}

func (c *Controller) controllerStatus(address string) *controllerv1.ControllerStatus {
	if address == c.options.Address {
		return &controllerv1.ControllerStatus{
			Address: address, Leads: true, Reachable: true, Change: c.view.change(), Version: build.Name(),
		}
	}
	p := c.peers.get(address)
	if p == nil { // the set has changed meanwhile
		return &controllerv1.ControllerStatus{Address: address}
	}
	return &controllerv1.ControllerStatus{
		Address: address, Reachable: p.reachable(), Change: p.change.Load(), Version: p.programVersion(),
	}
}

// askPeers lets the others say whether they have a change, and their versions, and waits for them, but not long.
func (c *Controller) askPeers(ctx context.Context, change uint64) {
	ctx, cancel := context.WithTimeout(ctx, askPeersWithin)
	defer cancel()
	var asking sync.WaitGroup
	for _, p := range c.peers.all() {
		if p.reachable() {
			asking.Go(func() { p.leaseLeft(ctx, reconfig.LeaseWait{Change: change}) })
		}
	}
	asking.Wait()
}

func (c *Controller) hot(state *reconfig.State) []*controllerv1.HotShard {
	c.loading.Lock()
	rates := c.loads.Hottest(c.now(), hottest)
	c.loading.Unlock()
	var out []*controllerv1.HotShard
	for _, r := range rates {
		s := &state.Shards[r.Shard]
		out = append(out, &controllerv1.HotShard{
			Shard: uint32(r.Shard), Epoch: s.Epoch, Members: namesOf(state, s.Members), Reads: uint64(r.Reads),
			Writes: uint64(r.Writes), Extra: uint32(s.Extra),
		})
	}
	return out
}

// load handles a node's load report.
func (c *Controller) load(node reconfig.NodeID, in *controllerv1.Load) {
	load := reconfig.Load{
		Node: node, Interval: time.Duration(in.GetIntervalMs()) * time.Millisecond, Shards: make(map[uint16]reconfig.Rate, len(in.GetShards())),
		Objects: in.GetObjects(), MaxObjects: in.GetMaxObjects(), Sessions: in.GetSessions(), MaxSession: in.GetMaxSessions(),
	}
	shards := uint32(c.view.formed().Settings.Shards)
	for _, s := range in.GetShards() {
		if s.GetShard() < shards {
			load.Shards[uint16(s.GetShard())] = reconfig.Rate{Reads: float64(s.GetReads()), Writes: float64(s.GetWrites())}
		}
	}
	c.loading.Lock()
	defer c.loading.Unlock()
	c.loads.Report(c.now(), load)
}

// namesOf lists nodes as people call them.
func namesOf(s *reconfig.State, members []reconfig.NodeID) []string {
	names := make([]string, len(members))
	for i, id := range members {
		names[i] = s.Nodes[id].Name
	}
	return names
}

// sortedNodes lists nodes by ID.
func sortedNodes(s *reconfig.State) []*reconfig.Node {
	var all []*reconfig.Node
	for _, id := range slices.Sorted(maps.Keys(s.Nodes)) {
		all = append(all, s.Nodes[id])
	}
	return all
}
