package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/wire"
)

// Attend serves a membership stream until it ends.
func (c *Controller) Attend(stream grpc.BidiStreamingServer[controllerv1.NodeMessage, controllerv1.ControllerMessage]) error {
	first, err := stream.Recv()
	if err != nil {
		return gone(err)
	}
	if first.GetHello() == nil {
		return status.Error(codes.InvalidArgument, "the first message of a node must be its registration")
	}
	registration, err := message.Registration(first.GetHello())
	if err == nil {
		err = security.CheckNode(stream.Context(), registration.Name)
	}
	if err == nil {
		err = c.view.until(stream.Context(), c.view.loaded)
	}
	if err == nil && registration.Cluster != "" && registration.Cluster != c.view.formed().Settings.Cluster {
		err = fmt.Errorf("node %s belongs to another cluster (%s): remove its data (netcraq node --name %s --remove) before it joins "+
			"this one, %s",
			registration.Name, registration.Cluster, registration.Name, c.view.formed().Settings.Cluster)
	}
	if err == nil {
		err = c.namesake(stream.Context(), &registration)
	}
	if err != nil {
		return refuse(stream, err)
	}
	if registration.Shards == 0 { // the node only asks for the settings of its data plane
		return stream.Send(welcomeMessage(c.welcome(0)))
	}
	if c.term.Load() == nil { // the leader has to know the node first, and the node may not know the leader
		if err := stream.Send(welcomeMessage(c.welcome(0))); err != nil {
			return gone(err)
		}
	}
	node, err := c.register(stream.Context(), registration)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		return refuse(stream, err)
	case err != nil:
		return gone(err)
	}
	a := newMembershipStream(node, registration, first.GetHello().GetVersion())
	c.nodes.add(a)
	a.welcome(c.welcome(node)) // from now on it is told of other settings
	defer c.departed(a)
	if c.view.removed(node) { // since it was registered, perhaps before it was one of the nodes that are told
		c.nodes.refuse(node)
	}
	sent := make(chan error, 1)
	go func() { sent <- a.send(stream) }()
	received := make(chan error, 1)
	go func() { received <- c.listen(a, stream) }()
	select {
	case err = <-sent:
	case err = <-received:
	case <-a.replaced:
		err = status.Error(codes.Aborted, "the node opened another membership stream")
	}
	a.end()
	return gone(err)
}

// departed forgets a stream that ends, and tells the leader if its node has no other one.
func (c *Controller) departed(a *membershipStream) {
	if t := c.term.Load(); c.nodes.remove(a) && t != nil {
		t.inbox.call(func(l *reconfig.Leader) { l.Departed(c.now(), a.node, a.registration.Incarnation) })
	}
}

// If two nodes have the same name, the earlier one keeps it if its heartbeat arrives this long after the other one
// registered: messages that a dead node has sent arrive sooner. If no heartbeat arrives for the longer time, the earlier
// node counts as gone, and suspicion decides.
const (
	livesAfter = 250 * time.Millisecond
	goneAfter  = time.Second // shorter than nodes wait for their welcome
)

// namesake refuses a node whose name another one has, which lives. If that one is gone the node may take its place.
func (c *Controller) namesake(ctx context.Context, h *reconfig.Registration) error {
	other := c.nodes.namesake(h)
	if other == nil || c.now()-time.Duration(other.lastSeen.Load()) > livesAfter {
		return nil
	}
	began := c.now()
	tick := time.NewTicker(livesAfter / 5)
	defer tick.Stop()
	for c.now()-began < goneAfter {
		if time.Duration(other.lastSeen.Load()) > began+livesAfter {
			return fmt.Errorf("a node named %s lives already, at %v: end that one first, or give this one another --name",
				h.Name, other.registration.Addr)
		}
		select {
		case <-tick.C:
		case <-other.over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// refusal is an error that a node's operator has to correct.
type refusal struct{ error }

func refuse(stream grpc.BidiStreamingServer[controllerv1.NodeMessage, controllerv1.ControllerMessage], err error) error {
	return stream.Send(&controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Refusal{Refusal: err.Error()}})
}

// gone makes nothing of a stream that ended.
func gone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled {
		return nil
	}
	return err
}

func welcomeMessage(w *controllerv1.Welcome) *controllerv1.ControllerMessage {
	return &controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Welcome{Welcome: w}}
}

func (c *Controller) welcome(node reconfig.NodeID) *controllerv1.Welcome {
	f := c.view.formed()
	return &controllerv1.Welcome{
		Node: uint32(node), Cluster: f.Settings.Cluster, Shards: uint32(f.Settings.Shards), BeatUs: uint32(f.Settings.Heartbeat.Microseconds()),
		CellBytes: uint32(f.Settings.CellBytes), Controllers: f.Controllers.Addresses(), Controller: c.options.Address,
		ControllersSince: f.Controllers.Since, Joining: f.Controllers.Joining.Address,
		Tags: f.Settings.Tags.Phase == wire.TagsRequired, TagPhase: uint32(f.Settings.Tags.Phase), TagsSince: f.Settings.Tags.Since,
	}
}

// welcomeAll tells every connected node the interval of heartbeats, the phase of tags, and the set of controllers.
func (c *Controller) welcomeAll() {
	for _, a := range c.nodes.all() {
		a.welcome(c.welcome(a.node))
	}
}

// listen handles a node's messages.
func (c *Controller) listen(a *membershipStream, stream grpc.BidiStreamingServer[controllerv1.NodeMessage,
	controllerv1.ControllerMessage]) error {
	for {
		in, err := stream.Recv()
		if err != nil {
			return err
		}
		switch kind := in.GetKind().(type) {
		case *controllerv1.NodeMessage_Beat:
			a.lastSeen.Store(int64(c.now()))
			heartbeat := message.Heartbeat(a.node, a.registration.Incarnation, kind.Beat)
			if grant, ok := c.view.grant(heartbeat); ok {
				a.grant(grant)
				c.metrics.grants.Inc()
			}
			if t := c.term.Load(); t != nil {
				t.inbox.heartbeat(heartbeat)
			}
		case *controllerv1.NodeMessage_Inventory:
			inventory, err := message.Inventory(a.node, a.registration.Incarnation, a.registration.Addr, kind.Inventory)
			if err != nil {
				return status.Errorf(codes.InvalidArgument, "inventory: %v", err)
			}
			if t := c.term.Load(); t != nil {
				t.inbox.call(func(l *reconfig.Leader) { l.Inventory(c.now(), inventory) })
			}
		case *controllerv1.NodeMessage_Heart:
			key := wire.SecretOf(kind.Heart.GetKey())
			if key == nil {
				return status.Errorf(codes.InvalidArgument, "heart: a key of %d bytes", len(kind.Heart.GetKey()))
			}
			c.hearts.learn(a.node, &a.registration, key)
		case *controllerv1.NodeMessage_Reached:
			if t := c.term.Load(); t != nil {
				id := reconfig.NodeID(kind.Reached.GetNode())
				t.inbox.call(func(l *reconfig.Leader) { l.Reached(c.now(), id) })
			}
		case *controllerv1.NodeMessage_Sweep:
			if t := c.term.Load(); t != nil {
				sweep := message.Sweep(a.node, a.registration.Incarnation, kind.Sweep)
				t.inbox.call(func(l *reconfig.Leader) { l.Swept(c.now(), sweep) })
			}
		case *controllerv1.NodeMessage_Load:
			c.load(a.node, kind.Load)
		default:
			return status.Errorf(codes.InvalidArgument, "a node does not say %T", kind)
		}
	}
}
