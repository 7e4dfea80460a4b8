package controller

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/cluster/reconfig/message"
)

// nodes are the open membership streams of this controller.
type nodes struct {
	mu   sync.Mutex
	byID map[reconfig.NodeID]*membershipStream
}

// add makes a stream the one of its node, and ends an earlier one, which the node does not use any more.
func (n *nodes) add(a *membershipStream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if before := n.byID[a.node]; before != nil {
		close(before.replaced)
	}
	n.byID[a.node] = a
}

// refuse tells a connected node that it is not a member any more.
func (n *nodes) refuse(id reconfig.NodeID) {
	n.mu.Lock()
	a := n.byID[id]
	n.mu.Unlock()
	if a != nil {
		a.refuse(fmt.Sprintf("node %s was removed from the cluster: end it; to join again it needs another name and no state",
			a.registration.Name))
	}
}

// namesake finds the stream of another node with that name.
func (n *nodes) namesake(h *reconfig.Registration) *membershipStream {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.byID {
		if a.registration.Name == h.Name && a.registration.Incarnation != h.Incarnation {
			return a
		}
	}
	return nil
}

// remove forgets a stream, and reports whether its node has no other one.
func (n *nodes) remove(a *membershipStream) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID[a.node] != a {
		return false
	}
	delete(n.byID, a.node)
	return true
}

// version is that of a node's program; empty: it is not known.
func (n *nodes) version(id reconfig.NodeID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.byID[id]; a != nil {
		return a.version
	}
	return ""
}

func (n *nodes) all() []*membershipStream {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Values(n.byID))
}

// order sends an order to a node that is connected.
func (n *nodes) order(id reconfig.NodeID, o *reconfig.Order) {
	n.mu.Lock()
	a := n.byID[id]
	n.mu.Unlock()
	if a != nil {
		a.order(o)
	}
}

// release lets a departing node end its agent.
func (n *nodes) release(r reconfig.Release) {
	n.mu.Lock()
	a := n.byID[r.Node]
	n.mu.Unlock()
	if a != nil {
		a.release(&controllerv1.Release{Term: r.Term})
	}
}

// probe asks nodes whether they reach another one.
func (n *nodes) probe(p *reconfig.Probe) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range p.Through {
		if a := n.byID[id]; a != nil {
			a.probe(&controllerv1.Probe{Node: uint32(p.Node), Addr: p.Addr.String()})
		}
	}
}

// membershipStream is one node's stream, with the messages that wait for it: the newest of each kind.
type membershipStream struct {
	node         reconfig.NodeID
	registration reconfig.Registration
	version      string        // of the agent's program
	replaced     chan struct{} // closed when the node opened another membership stream
	over         chan struct{} // closed at its end
	lastSeen     atomic.Int64  // time of the last heartbeat

	ready   chan struct{} // has an element if there may be something to tell
	mu      sync.Mutex
	ended   bool
	refusal string // the last message to the node
	greet   *controllerv1.Welcome
	granted *reconfig.Grant
	ordered *reconfig.Order
	freed   *controllerv1.Release
	probes  map[uint32]*controllerv1.Probe // by node
}

func newMembershipStream(node reconfig.NodeID, h reconfig.Registration, version string) *membershipStream {
	return &membershipStream{
		node: node, registration: h, version: version,
		replaced: make(chan struct{}), over: make(chan struct{}), ready: make(chan struct{}, 1),
	}
}

func (a *membershipStream) welcome(w *controllerv1.Welcome) {
	a.mu.Lock()
	a.greet = w
	a.mu.Unlock()
	a.wake()
}

func (a *membershipStream) grant(g reconfig.Grant) {
	a.mu.Lock()
	a.granted = &g
	a.mu.Unlock()
	a.wake()
}

func (a *membershipStream) order(o *reconfig.Order) {
	a.mu.Lock()
	a.ordered = o
	a.mu.Unlock()
	a.wake()
}

func (a *membershipStream) release(r *controllerv1.Release) {
	a.mu.Lock()
	a.freed = r
	a.mu.Unlock()
	a.wake()
}

func (a *membershipStream) probe(p *controllerv1.Probe) {
	a.mu.Lock()
	if a.probes == nil {
		a.probes = make(map[uint32]*controllerv1.Probe)
	}
	a.probes[p.GetNode()] = p
	a.mu.Unlock()
	a.wake()
}

// end makes send return. It is called once.
func (a *membershipStream) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	close(a.over)
	a.wake()
}

// refuse ends the stream, and tells the node why.
func (a *membershipStream) refuse(why string) {
	a.mu.Lock()
	a.refusal = why
	a.mu.Unlock()
	a.wake()
}

func (a *membershipStream) wake() {
	select {
	case a.ready <- struct{}{}:
	default: // it was woken already
	}
}

// send sends waiting messages until the stream ends. It is the stream's only writer.
func (a *membershipStream) send(stream grpc.BidiStreamingServer[controllerv1.NodeMessage, controllerv1.ControllerMessage]) error {
	for range a.ready {
		a.mu.Lock()
		ended, greet, granted, ordered, refusal, probes := a.ended, a.greet, a.granted, a.ordered, a.refusal, a.probes
		freed := a.freed
		a.greet, a.granted, a.ordered, a.freed, a.probes = nil, nil, nil, nil, nil
		a.mu.Unlock()
		if ended {
			return nil
		}
		if refusal != "" {
			return refuse(stream, errors.New(refusal))
		}
		var out []*controllerv1.ControllerMessage
		if greet != nil {
			out = append(out, welcomeMessage(greet))
		}
		if ordered != nil {
			out = append(out, &controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Order{Order: message.FromOrder(ordered)}})
		}
		if granted != nil {
			out = append(out, &controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Grant{Grant: message.FromGrant(*granted)}})
		}
		if freed != nil {
			out = append(out, &controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Release{Release: freed}})
		}
		for _, p := range probes {
			out = append(out, &controllerv1.ControllerMessage{Kind: &controllerv1.ControllerMessage_Probe{Probe: p}})
		}
		for _, m := range out {
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}
	return nil
}
