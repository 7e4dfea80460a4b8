package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/ipv4"

	"github.com/netcraq/netcraq/internal/cluster/controller/store"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// hearts asks the data planes of nodes whether they live, and grants them leases that way (H1 to H4): neither waits
// for a node's agent. Nodes that
// do not answer so are heard, and get their grants, by the connections of their agents.
type hearts struct {
	c       *Controller
	socket  *net.UDPConn
	packets *ipv4.PacketConn // of the socket: many datagrams a system call
	every   time.Duration    // between two heartbeats
	// process is that of this controller's clock in heartbeats (H4).
	process uint8

	mu       sync.Mutex
	nodes    map[reconfig.NodeID]*heart
	granter  int // this controller's place among all of them; -1: it sends no heartbeats
	majority int
	setID    uint32
}

// heart is the heartbeat state of one node's data plane.
type heart struct {
	key         wire.Secret
	incarnation uint64
	out         ipv4.Message   // the last heartbeat
	request     uint64         // of the last heartbeat: its time (H4)
	answered    uint64         // the newest that was answered
	grant       reconfig.Grant // for the last answer; zero: none
}

func (c *Controller) newHearts(formed *store.Formation) (*hearts, error) {
	socket, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return nil, fmt.Errorf("a socket for heartbeats: %w", err)
	}
	h := &hearts{
		c: c, socket: socket, packets: ipv4.NewPacketConn(socket), every: formed.Settings.Heartbeat,
		nodes: make(map[reconfig.NodeID]*heart), process: uint8(rand.Uint32()),
	}
	h.follow(&formed.Controllers)
	return h, nil
}

// follow makes grants those of a set of controllers (H2).
func (h *hearts) follow(set *reconfig.ControllerSet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.granter, h.majority, h.setID = slices.Index(set.Addresses(), h.c.options.Address), set.Majority(), set.ID()
}

// learn records the key of a node's heartbeats.
func (h *hearts) learn(node reconfig.NodeID, registration *reconfig.Registration, key *wire.Secret) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[node] = &heart{key: *key, incarnation: registration.Incarnation,
		out: ipv4.Message{
			Buffers: [][]byte{make([]byte, 0, wire.HeartbeatBytes)}, Addr: net.UDPAddrFromAddrPort(registration.Addr),
		}}
}

// serve sends and receives until ctx ends.
func (h *hearts) serve(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { h.socket.Close() })
	defer stop()
	var receiver sync.WaitGroup
	receiver.Go(h.receive)
	defer receiver.Wait()
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	var out []ipv4.Message
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		var counts bool
		out, counts = h.round(out[:0])
		h.send(out)
		if every := h.c.view.formed().Settings.Heartbeat; every > 0 && every != h.every {
			h.every = every
			ticker.Reset(every)
		}
		if t := h.c.term.Load(); t != nil && counts {
			t.inbox.ask()
		}
	}
}

// round appends the next heartbeat of every node. counts reports whether this controller sends any.
func (h *hearts) round(out []ipv4.Message) (_ []ipv4.Message, counts bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts = h.granter >= 0
	now := dataplane.BootTime()
	for id, n := range h.nodes {
		if !h.c.view.knows(id, n.incarnation) {
			delete(h.nodes, id)
			continue
		}
		if counts {
			n.out.Buffers[0] = h.next(id, n, now).Append(n.out.Buffers[0][:0], &n.key)
			out = append(out, n.out)
		}
	}
	return out, counts
}

// send sends datagrams. A node that cannot be reached is silent.
func (h *hearts) send(out []ipv4.Message) {
	for len(out) > 0 {
		n, err := h.packets.WriteBatch(out, 0)
		if err != nil {
			n = max(n, 1) // the first one that is left
		}
		out = out[n:]
	}
}

// next is the next heartbeat of a node. A grant is repeated until the next answer: it ends when it ends.
func (h *hearts) next(id reconfig.NodeID, n *heart, now uint64) *wire.Heartbeat {
	n.request = max(n.request+1, wire.HeartbeatTime(h.process, now))
	b := &wire.Heartbeat{
		Granter: uint8(h.granter), Majority: uint8(h.majority), Node: uint32(id), SetID: h.setID,
		Incarnation: n.incarnation, Request: n.request,
	}
	if h.c.view.grants(id, n.incarnation) && n.grant.SetID == h.setID { // the set may be about to change
		b.Stamp, b.Lease = n.grant.Stamp, uint64(n.grant.Lease)
	}
	return b
}

// receiveAtOnce is how many answers one system call receives.
const receiveAtOnce = 64

// receive takes answers until the socket is closed.
func (h *hearts) receive() {
	in := make([]ipv4.Message, receiveAtOnce)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, wire.HeartbeatBytes+1)}
	}
	var alive []life
	for {
		n, err := h.packets.ReadBatch(in, 0)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // such as an ICMP message of a node that is away
			continue
		}
		alive = alive[:0]
		for i := range in[:n] {
			if one, ok := h.answer(in[i].Buffers[0][:in[i].N]); ok {
				alive = append(alive, one)
			}
		}
		if t := h.c.term.Load(); t != nil && len(alive) > 0 {
			t.inbox.alive(alive)
		}
	}
}

// answer takes a datagram, and reports which node it shows to live.
func (h *hearts) answer(datagram []byte) (_ life, ok bool) {
	if !wire.IsHeartbeat(datagram) || len(datagram) != wire.HeartbeatBytes {
		return life{}, false
	}
	id := reconfig.NodeID(wire.HeartbeatNode(datagram))
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[id]
	var b wire.Heartbeat
	if n == nil || wire.ReadHeartbeat(datagram, &n.key, &b) != wire.Accepted || !b.Answer || b.Incarnation != n.incarnation ||
		b.Request <= n.answered || b.Request > n.request {
		return life{}, false
	}
	n.answered = b.Request
	grant, granted := h.c.view.grant(reconfig.Heartbeat{Node: id, Incarnation: n.incarnation, Stamp: b.Stamp})
	if !granted {
		grant = reconfig.Grant{}
	}
	n.grant = grant
	h.c.metrics.grants.Inc()
	return life{id, n.incarnation}, true
}
