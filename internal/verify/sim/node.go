package sim

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// node is one machine with a data plane, and an agent that comes and goes.
type node struct {
	w      *world
	rng    *rand.Rand
	number int
	name   string
	plane  plane
	clock  clock

	joined bool   // started at least once
	up     bool   // the machine runs
	asleep uint64 // until when it does nothing; its clock goes on
	paused uint64 // until when its agent does nothing
	// until when its clock stands still
	stopped uint64

	agent       *agent // nil: it does not run
	incarnation uint64 // of the state that the machine holds
	term        uint64 // kept beside the plane, as is the incarnation
	kept        bool   // the plane outlived an agent

	configs  []chain.ShardConfig // as the plane has them
	heartKey wire.Secret
	heart    chain.Heart    // as the plane was told
	renewed  uint64         // end of its lease
	since    uint64         // when its plane found last that the clock had stood still
	seen     []chain.Object // by key: at the last check, for values that may not decrease
	out      []packet
}

func newNode(w *world, number int, p plane) *node {
	rng := w.stream(uint64(10 + number))
	return &node{
		w: w, rng: rng, number: number, name: nodeName(number), plane: p, clock: w.newClock(rng),
		configs: make([]chain.ShardConfig, w.Shards), seen: make([]chain.Object, len(w.keys)),
	}
}

func (n *node) endpoint() endpoint { return firstNode + endpoint(n.number) }

func (n *node) time() uint64 { return n.clock.show(n.w.now) }

// alive reports whether the machine runs and is awake.
func (n *node) alive() bool { return n.up && n.w.now >= n.asleep }

// mayRead is R4.
func (n *node) mayRead(shard uint16) bool {
	return n.up && n.w.now >= n.stopped && n.configs[shard].Readable() && n.time() < n.renewed
}

// boot starts a machine, without state.
func (n *node) boot() {
	if n.up {
		return
	}
	if err := n.plane.reset(); err != nil {
		n.w.watch.fail(err)
		return
	}
	n.joined, n.up, n.kept, n.term, n.incarnation = true, true, false, 0, n.rng.Uint64()
	n.heart = chain.Heart{}
	n.w.note(every, every, "%s starts, empty", n.name)
	n.startAgent()
}

// crash loses all that the machine knows.
func (n *node) crash() {
	n.w.note(every, every, "%s crashes", n.name)
	n.up, n.agent, n.renewed, n.since, n.asleep, n.paused, n.stopped = false, nil, 0, 0, 0, 0, 0
	clear(n.configs)
	clear(n.seen)
}

// receive takes a datagram, as soon as the machine is awake.
func (n *node) receive(p packet, damaged bool) {
	switch {
	case !n.up:
		return
	case n.w.now < n.asleep:
		n.w.events.push(n.asleep, func() { n.receive(p, damaged) })
		return
	}
	if wire.IsHeartbeat(p.bytes) {
		out, err := n.plane.receive(n.time(), p, nil)
		n.w.watch.fail(err)
		n.heartbeat()
		for _, sent := range out {
			n.w.send(sent)
		}
		return
	}
	requests := n.read(p, damaged)
	var err error
	n.out, err = n.plane.receive(n.time(), p, n.out[:0])
	n.w.watch.fail(err)
	if damaged && len(n.out) > 0 && !wire.IsBundle(p.bytes) { // which may lose one message and keep the others
		n.w.broken(every, every, "A5: %s answered a damaged message", n.name)
	}
	for _, sent := range n.out {
		if sent.to == sent.from {
			continue // the answer to its own agent (W9), which the bytecode cannot send and no agent needs
		}
		n.sent(requests, sent)
		n.w.send(sent)
	}
	for i := range requests {
		if requests[i].Op != 0 {
			n.w.watch.received(n, &requests[i])
		}
	}
}

// read returns the readable messages of a datagram, one for each slot of a bundle; the op of others is 0.
func (n *node) read(p packet, damaged bool) []wire.Message {
	encoded := parts(p.bytes)
	requests := make([]wire.Message, len(encoded))
	for i := range requests {
		if wire.Peek(encoded[i], &requests[i]) && n.w.traced && !damaged {
			n.w.noteMessage("->", p.from, p.to, &requests[i])
		}
	}
	return requests
}

// sent checks the messages that follow from requests. Each slot of a bundle follows from the same slot of the request.
func (n *node) sent(requests []wire.Message, p packet) {
	bundle := wire.IsBundle(p.bytes)
	for i, encoded := range parts(p.bytes) {
		var m wire.Message
		if bundle && len(encoded) == 0 {
			continue
		}
		if !wire.Peek(encoded, &m) {
			n.w.broken(every, every, "%s sent what is no message", n.name)
			return
		}
		request := &requests[0]
		if bundle {
			request = &requests[i]
		}
		n.w.noteMessage("sends to", p.from, p.to, &m)
		n.w.watch.answered(request, &m)
		if !bundle && n.agent != nil && m.Op == wire.OpReply && m.Status() == wire.StatusBusy {
			n.agent.busy(m.Key)
		}
	}
}

// The methods of reconfig.Plane and others that an agent calls. They report each change to the world.

// Config implements reconfig.Plane.
func (n *node) Config(shard uint16) (chain.ShardConfig, error) { return n.plane.Config(shard) }

// ConfigureAll implements reconfig.Plane.
func (n *node) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if err := n.plane.ConfigureAll(configs); err != nil {
		return err
	}
	var shards []uint16
	for shard := range uint16(n.w.Shards) {
		if c, ok := configs[shard]; ok {
			n.configs[shard] = c
			shards = append(shards, shard)
			n.w.note(int(shard), every, "%s is %v in epoch %d, place %d of %s%s, floor %d, bar %d",
				n.name, c.State, c.Epoch, c.Self, n.w.namesOf(c.Members), learnerMark(c.Learner), c.Floor, c.Bar)
		}
	}
	n.w.watch.configured(n, shards)
	return nil
}

func learnerMark(learner bool) string {
	if learner {
		return ", learner"
	}
	return ""
}

// Import implements reconfig.Plane.
func (n *node) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	if err := n.plane.Import(objects, sessions); err != nil {
		return err
	}
	for i := range objects {
		key := n.w.keyNumber(objects[i].Key)
		n.w.note(int(objects[i].Key.Shard(n.w.Shards)), key, "%s imports version %d", n.name, objects[i].Object.Version)
		n.w.watch.checkObject(n, key)
	}
	return nil
}

func (n *node) renew(until uint64) {
	n.w.watch.fail(n.plane.Renew(until))
	n.renewed = max(n.renewed, until)
	for shard := range uint16(n.w.Shards) {
		n.w.watch.checkReader(n, shard)
	}
}

func (n *node) drop(shards []uint16) error {
	if len(shards) == 0 {
		return nil
	}
	n.w.note(every, every, "%s wipes shards %v", n.name, shards)
	return n.forget(shards, n.plane.Drop)
}

// Collect implements reconfig.SweptPlane. Nothing but G4 removes versions of a shard that is served.
func (n *node) Collect() (map[uint16]dataplane.Tombstones, error) {
	left, err := n.plane.Collect()
	for i := range n.w.keys {
		if o := &n.seen[i]; o.Version != 0 && n.w.watch.object(n, i).Version == 0 {
			n.w.note(int(n.w.keys[i].Shard(n.w.Shards)), i, "%s collects version %d", n.name, o.Version)
			n.w.result.Collected++
			*o = chain.Object{}
		}
	}
	return left, err
}

// Dirty implements reconfig.SweptPlane.
func (n *node) Dirty(limit int) ([]dataplane.KeyedObject, error) { return n.plane.Dirty(limit) }

// Object implements reconfig.SweptPlane.
func (n *node) Object(key wire.Key) (chain.Object, bool, error) { return n.plane.Object(key) }

func (n *node) doubt(shards []uint16) error {
	if len(shards) == 0 {
		return nil
	}
	n.w.note(every, every, "%s gives up what it is not sure of in shards %v", n.name, shards)
	return n.forget(shards, func(shards []uint16) error {
		_, err := n.plane.Doubt(shards, nil)
		return err
	})
}

// forget removes versions; nothing else may.
func (n *node) forget(shards []uint16, do func([]uint16) error) error {
	if err := do(shards); err != nil {
		return err
	}
	for i, key := range n.w.keys {
		if slices.Contains(shards, key.Shard(n.w.Shards)) {
			n.seen[i] = n.w.watch.object(n, i)
			n.seen[i].Value = bytes.Clone(n.seen[i].Value)
		}
	}
	return nil
}
