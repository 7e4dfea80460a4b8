package controller

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/topology"
)

// Operate implements the API. It returns when the change is durable; its consequences take longer.
func (c *Controller) Operate(ctx context.Context, in *controllerv1.OperateRequest) (*controllerv1.OperateResponse, error) {
	command, err := commandOf(in)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if tags, ok := command.(reconfig.SetTags); ok && tags.On && c.options.Identity == nil {
		return nil, status.Error(codes.Aborted,
			"tags need controllers with --identity: without certificates any host could request the keys")
	}
	var change uint64
	var refused error
	if _, err := c.ask(ctx, func(l *reconfig.Leader) { change, refused = l.Operate(c.now(), command) }); err != nil {
		return nil, err
	}
	if refused != nil {
		return nil, status.Error(codes.Aborted, refused.Error())
	}
	c.log.Info("an operator asked for a change", "command", reconfig.Describe(command), "change", change)
	if err := c.view.until(ctx, func() bool { return c.view.state.Change >= change }); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if err := c.drained(command); err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	return &controllerv1.OperateResponse{Change: change}, nil
}

// drained returns an error if a command was to drain a node that is not drained now. The leader checks a command against
// the last durable state, and drops it if the change that is being stored then leaves too few nodes.
func (c *Controller) drained(command reconfig.Command) error {
	var name string
	switch command := command.(type) {
	case reconfig.Drain:
		name = command.Node
	case reconfig.Cordon:
		name = command.Node
	default:
		return nil
	}
	state := c.view.clone()
	if state == nil {
		return nil
	}
	for _, n := range state.Nodes {
		if n.Name == name && !n.Standing.Draining() {
			return fmt.Errorf("node %s is not drained: another change came first; try again", name)
		}
	}
	return nil
}

// commandOf reads a command.
func commandOf(in *controllerv1.OperateRequest) (reconfig.Command, error) {
	shardOf := func(n uint32) (uint16, error) {
		if n > math.MaxUint16 {
			return 0, fmt.Errorf("there is no shard %d", n)
		}
		return uint16(n), nil
	}
	switch kind := in.GetKind().(type) {
	case *controllerv1.OperateRequest_Drain:
		return reconfig.Drain{Node: kind.Drain}, nil
	case *controllerv1.OperateRequest_Undrain:
		return reconfig.Undrain{Node: kind.Undrain}, nil
	case *controllerv1.OperateRequest_Remove:
		return reconfig.Remove{Node: kind.Remove}, nil
	case *controllerv1.OperateRequest_Fail:
		return reconfig.Fail{Node: kind.Fail}, nil
	case *controllerv1.OperateRequest_Replicas:
		return reconfig.Replicas{Members: int(kind.Replicas)}, nil
	case *controllerv1.OperateRequest_Times:
		return reconfig.SetTimes{Times: timesOf(kind.Times)}, nil
	case *controllerv1.OperateRequest_Tags:
		return reconfig.SetTags{On: kind.Tags}, nil
	case *controllerv1.OperateRequest_Floor:
		return reconfig.RaiseFloor{Floor: kind.Floor}, nil
	case *controllerv1.OperateRequest_Move:
		shard, err := shardOf(kind.Move.GetShard())
		return reconfig.MoveShard{Shard: shard, From: kind.Move.GetFrom(), To: kind.Move.GetTo()}, err
	case *controllerv1.OperateRequest_AcceptLoss:
		shard, err := shardOf(kind.AcceptLoss)
		return reconfig.AcceptLoss{Shard: shard}, err
	case *controllerv1.OperateRequest_Add:
		return nil, errors.New("a node is added by starting it: `netcraq node --join`; only a plan can be made before")
	}
	return nil, errors.New("no command is given")
}

func timesOf(t *controllerv1.Times) reconfig.Times {
	us := func(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64/1000)) * time.Microsecond }
	return reconfig.Times{
		Heartbeat: us(t.GetBeatUs()), Lease: us(t.GetLeaseUs()), Suspect: us(t.GetSuspectUs()),
		LeaseMax: us(t.GetLeaseMaxUs()), SuspectMax: us(t.GetSuspectMaxUs()), Sure: us(t.GetSureUs()),
	}
}

func fromTimes(t reconfig.Times) *controllerv1.Times {
	us := func(d time.Duration) uint64 { return uint64(d.Microseconds()) }
	return &controllerv1.Times{
		BeatUs: us(t.Heartbeat), LeaseUs: us(t.Lease), SuspectUs: us(t.Suspect), LeaseMaxUs: us(t.LeaseMax),
		SuspectMaxUs: us(t.SuspectMax), SureUs: us(t.Sure),
	}
}

// Plan is of the API.
func (c *Controller) Plan(ctx context.Context, in *controllerv1.OperateRequest) (*controllerv1.PlanResponse, error) {
	if err := c.checkPlan(ctx, in); err != nil {
		return nil, err
	}
	before := c.view.clone()
	after := c.view.clone()
	if err := suppose(after, in); err != nil {
		return nil, status.Error(codes.Aborted, err.Error())
	}
	plan := planOf(after)
	out := &controllerv1.PlanResponse{Shards: uint32(len(before.Shards))}
	for shard := range before.Shards {
		was := before.Shards[shard].Members
		var is []reconfig.NodeID
		for _, id := range plan.After[shard] {
			is = append(is, reconfig.NodeID(id))
		}
		if joined(was, is) == 0 && len(was) == len(is) {
			continue
		}
		out.ShardsMoved++
		out.Moves = append(out.Moves, &controllerv1.PlanMove{Shard: uint32(shard), Before: namesOf(before, was), After: namesOf(after, is)})
	}
	return out, nil
}

// checkPlan refuses a plan for a change that the leader would refuse.
func (c *Controller) checkPlan(ctx context.Context, in *controllerv1.OperateRequest) error {
	check := func(*reconfig.Leader) error { return nil }
	switch in.GetKind().(type) {
	case nil, *controllerv1.OperateRequest_Add:
	default:
		command, err := commandOf(in)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		check = func(l *reconfig.Leader) error { return l.CheckPlan(command) }
	}
	var refused error
	if _, err := c.ask(ctx, func(l *reconfig.Leader) { refused = check(l) }); err != nil {
		return err
	}
	if refused != nil {
		return status.Error(codes.Aborted, refused.Error())
	}
	return nil
}

// joined counts the members of one chain that are not in another.
func joined(was, is []reconfig.NodeID) (n int) {
	for _, id := range is {
		found := false
		for _, other := range was {
			found = found || other == id
		}
		if !found {
			n++
		}
	}
	return n
}

// suppose changes a copy of the state as a command would.
func suppose(s *reconfig.State, in *controllerv1.OperateRequest) error {
	stand := func(name string, standing reconfig.Standing) error {
		for id, n := range s.Nodes {
			if n.Name == name && n.Standing != reconfig.Removed {
				supposed := *n
				supposed.Standing = standing
				s.Nodes[id] = &supposed
				return nil
			}
		}
		return fmt.Errorf("there is no node %q", name)
	}
	switch kind := in.GetKind().(type) {
	case nil: // the present state
		return nil
	case *controllerv1.OperateRequest_Drain:
		return stand(kind.Drain, reconfig.Draining)
	case *controllerv1.OperateRequest_Undrain:
		return stand(kind.Undrain, reconfig.Up)
	case *controllerv1.OperateRequest_Remove:
		return stand(kind.Remove, reconfig.Removed)
	case *controllerv1.OperateRequest_Replicas:
		s.Settings.Replicas = int(kind.Replicas)
		return nil
	case *controllerv1.OperateRequest_Add:
		id := reconfig.NodeID(1)
		for known := range s.Nodes {
			id = max(id, known+1)
		}
		s.Nodes[id] = &reconfig.Node{ID: id, Name: kind.Add.GetName(), Labels: kind.Add.GetLabels(),
			Capacity: kind.Add.GetCapacity(), Standing: reconfig.Up}
		return nil
	}
	return errors.New("there is no plan for this: it is one step")
}

// planOf plans where the shards of a state should be.
func planOf(s *reconfig.State) *topology.Plan {
	var nodes []topology.Candidate
	for _, n := range sortedNodes(s) {
		if n.Standing == reconfig.Up {
			nodes = append(nodes, topology.Candidate{ID: uint32(n.ID), Name: n.Name, Labels: n.Labels, Capacity: n.Capacity})
		}
	}
	chains := make([]topology.Chain, len(s.Shards))
	for i := range s.Shards {
		shard := &s.Shards[i]
		chains[i] = topology.Chain{Want: s.Settings.Replicas + int(shard.Extra), Extra: int(shard.Extra)}
		for _, id := range shard.Members {
			chains[i].Members = append(chains[i].Members, uint32(id))
		}
	}
	return topology.NewRing(nodes, s.Settings.Spread).Plan(chains)
}
