package p4runtime

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/platform/seedtest"
	"github.com/netcraq/netcraq/wire"
)

// leases are nodes that get the same leases: a model, and switches with and without registers.
type leases struct {
	*testing.T
	random   *rand.Rand
	now      uint64
	ahead    uint64 // of the controllers' clock
	epoch    uint32
	model    *chain.Node
	switches [2]*p4.Harness
	heart    chain.Heart
	statuses map[wire.Status]int // of answers
}

var leasesClient = netip.AddrPortFrom(stepsHosts[2], 50000)

// TestLeases: a node on a switch shows a shard's state as long as one in memory does, whether leases come from heartbeats,
// from its agent or for one shard, end, are withdrawn or void.
func TestLeases(t *testing.T) {
	l := &leases{T: t, random: rand.New(rand.NewPCG(seedtest.Seed(t), 0)), now: uint64(24 * time.Hour),
		model: chain.New(stepsOptions), heart: chain.Heart{Key: wire.Secret{7}, Node: 3, SetID: 1, Incarnation: 99},
		statuses: make(map[wire.Status]int)}
	l.switches[0], _ = stepsNode(newRig(t))
	l.switches[1], _ = stepsNode(lackingRig(t, hasRegisters, hasRegisters))
	l.model.SetHeart(l.heart)
	l.each(func(h *p4.Harness) error { return errors.Join(h.SetClock(l.now), h.SetHeart(l.heart)) })
	for range 400 {
		l.change()
		for i := range uint64(8) {
			l.read(wire.Key{Hi: 9, Lo: i})
		}
	}
	if l.statuses[wire.StatusNotFound] == 0 || l.statuses[wire.StatusBusy] == 0 || l.statuses[wire.StatusNotMine] == 0 {
		t.Errorf("answers: %v", l.statuses)
	}
}

func (l *leases) each(do func(h *p4.Harness) error) {
	l.Helper()
	for _, h := range l.switches {
		if err := do(h); err != nil {
			l.Fatal(err)
		}
	}
}

// change makes a random change at all nodes.
func (l *leases) change() {
	shard := uint16(l.random.UintN(2))
	near := l.now + uint64(l.random.IntN(15)-5)*uint64(time.Millisecond)
	switch l.random.IntN(7) {
	case 0, 1:
		l.now += l.random.Uint64N(5) * uint64(time.Millisecond)
		l.each(func(h *p4.Harness) error { return h.SetClock(l.now) })
	case 2:
		l.configure(shard)
	case 3:
		until := []uint64{near, near, near, 0}[l.random.IntN(4)]
		l.model.Renew(until)
		l.each(func(h *p4.Harness) error { return h.Renew(until) })
	case 4:
		until := []uint64{near, near, near, 0, 1, chain.Forever}[l.random.IntN(6)]
		if err := l.model.Grant(shard, until); err != nil {
			l.Fatal(err)
		}
		l.each(func(h *p4.Harness) error { return h.GrantUntil(shard, until) })
	default:
		l.beat()
	}
}

func (l *leases) configure(shard uint16) {
	l.epoch++
	c := chain.ShardConfig{Epoch: l.epoch, State: chain.Active, Members: []netip.AddrPort{stepsSelf}}
	switch l.random.IntN(4) {
	case 0:
		c = chain.ShardConfig{}
	case 1:
		c.Self, c.Learner = 1, l.random.IntN(2) == 0
		c.Members = []netip.AddrPort{
			netip.AddrPortFrom(stepsHosts[0], 4411), stepsSelf, netip.AddrPortFrom(stepsHosts[1], 4411),
		}
	}
	configs := map[uint16]chain.ShardConfig{shard: c}
	if err := l.model.ConfigureAll(configs); err != nil {
		l.Fatal(err)
	}
	l.each(func(h *p4.Harness) error { return h.ConfigureAll(configs) })
}

// beat is a heartbeat of a controller, which may find that the node's clock stood still.
func (l *leases) beat() {
	if l.random.IntN(8) == 0 {
		l.ahead += uint64(20 * time.Millisecond)
	}
	m := wire.Heartbeat{
		Granter: uint8(l.random.UintN(3)), Majority: uint8(1 + l.random.UintN(2)), Node: l.heart.Node, SetID: l.heart.SetID,
		Incarnation: l.heart.Incarnation, Request: wire.HeartbeatTime(1, l.now+l.ahead),
		Stamp: l.now - l.random.Uint64N(3)*uint64(time.Millisecond), Lease: l.random.Uint64N(9) * uint64(time.Millisecond),
	}
	datagram := m.Append(nil, &l.heart.Key)
	want := l.model.ReceiveHeartbeat(l.now, datagram, nil)
	for i, h := range l.switches {
		if is := l.run(h, datagram); is == nil || !bytes.Equal(is.Message, want) {
			l.Fatalf("switch %d answers %v, want %x", i, is, want)
		}
	}
}

// run is what a switch sends for a message; nil: nothing.
func (l *leases) run(h *p4.Harness, message []byte) *frame.Packet {
	l.Helper()
	sent, _, err := h.Run(frame.Append(nil, &frame.Packet{From: leasesClient, To: stepsSelf, Message: message}))
	if err != nil || len(sent) > 1 {
		l.Fatalf("%d frames, %v", len(sent), err)
	}
	if len(sent) == 0 {
		return nil
	}
	p, err := frame.ReadSent(sent[0])
	if err != nil {
		l.Fatal(err)
	}
	return &p
}

// read reads a key at all nodes.
func (l *leases) read(k wire.Key) {
	l.Helper()
	q := wire.Message{Op: wire.OpRead, Shard: k.Shard(stepsOptions.Shards), Key: k, Request: 1}
	if l.random.IntN(2) == 0 {
		q.Flags, q.Detail = wire.FlagBounded, 3
	}
	message := q.Append(nil)
	var want string
	for _, s := range l.model.Receive(l.now, leasesClient, message, nil) {
		want += fmt.Sprintf("%v to %v: %v %x", s.Message.Op, s.To, s.Message.Status(), s.Message.Append(nil))
		l.statuses[s.Message.Status()]++
	}
	for i, h := range l.switches {
		is := ""
		if p := l.run(h, message); p != nil {
			var m wire.Message
			if err := wire.DecodeReply(p.Message, &m); err != nil {
				wire.Decode(p.Message, &m)
			}
			is = fmt.Sprintf("%v to %v: %v %x", m.Op, p.To, m.Status(), p.Message)
		}
		if is != want {
			l.Fatalf("switch %d at %d: read of shard %d with %v: %s\nwant %s", i, l.now, q.Shard, q.Flags, is, want)
		}
	}
}
