package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/netcraq/netcraq/internal/verify/history"
	"github.com/netcraq/netcraq/wire"
)

const (
	sessionShift = 16
	chanceReload = 0.5 // that a client whose attempt was not answered asks for the map
	chanceToHead = 0.7 // that a write goes to the head, not to any member
	chanceNear   = 0.8 // that a read goes to the member that is nearest to the client
	longestPause = 30 * time.Millisecond
)

// view is a client's knowledge of a shard.
type view struct {
	epoch   uint32
	members []netip.AddrPort
}

// shares are the clients' shares of reads. Clients that mostly read detect late that the chain changed.
var shares = [...]float64{0.2, 0.45, 0.45, 0.95}

// client is one client with one operation at a time (W10).
type client struct {
	w       *world
	rng     *rand.Rand
	number  int
	left    int // operations to start
	views   []view
	session uint64 // of its writes, in all shards
	seq     uint64
	known   []uint64 // by key: the version it saw last
	reads   float64  // share of its operations
	near    int      // place of the nearest member

	op       *history.Op // nil while it thinks
	key      int
	shard    uint16
	message  wire.Message
	deadline uint64
	pause    uint64
	first    uint64 // request id of the operation's first attempt; later ones follow
	request  uint64 // of the latest attempt
	sentTo   uint32 // epoch of the latest attempt
	counts   bool   // the operation began before its shard was lost, so it belongs to the history

	batching *rand.Rand
	bundled  uint64 // request id of the last attempt that travelled in a bundle
	turn     uint64 // counts operations begun: one may begin before its time
}

func newClient(w *world, number int) *client {
	c := &client{
		w: w, rng: w.stream(uint64(100 + number)), number: number, left: w.Ops, session: uint64(number + 1),
		request: uint64(number+1) << 32, views: make([]view, w.Shards), known: make([]uint64, len(w.keys)),
	}
	c.batching = w.stream(uint64(200 + number))
	c.reads, c.near = shares[c.rng.IntN(len(shares))], c.rng.IntN(wire.MaxChain)
	return c
}

func (c *client) endpoint() endpoint { return c.w.machine(c.number) }

// think plans the next operation.
func (c *client) think() {
	if c.left == 0 {
		return
	}
	turn := c.turn
	c.w.after(uint64(c.rng.ExpFloat64()*float64(c.w.Think)), func() {
		if c.turn == turn {
			c.start()
		}
	})
}

func (c *client) start() {
	c.begin()
	if c.w.Bundles > 0 && c.batching.Float64() < c.w.Bundles {
		c.together()
		return
	}
	c.attempt()
}

// begin makes the next operation.
func (c *client) begin() {
	c.turn++
	c.left--
	c.key = c.rng.IntN(len(c.w.keys))
	key := c.w.keys[c.key]
	c.shard = key.Shard(c.w.Shards)
	op := &history.Op{Client: c.number, Kind: history.Kind(1 + c.rng.IntN(4)), Key: keyName(c.key), Call: int64(c.w.now)}
	if c.rng.Float64() < c.reads {
		op.Kind = history.Get
	}
	c.op, c.first, c.counts = op, c.request+1, !c.w.watch.lost[c.shard]
	c.message = wire.Message{Key: key, Shard: c.shard}
	c.ask()
	c.w.note(int(c.shard), c.key, "client %d: %s %s", c.number, op.Kind, keyName(c.key))
	c.deadline, c.pause = c.w.now+uint64(c.w.GiveUp), uint64(c.w.Retry)
}

// ask makes the message that the operation is.
func (c *client) ask() {
	m, op := &c.message, c.op
	if op.Kind == history.Get {
		m.Op = wire.OpRead
	} else {
		c.seq++
		m.Session, m.Seq = c.session, c.seq
	}
	switch op.Kind {
	case history.Put:
		m.Op, op.Value = wire.OpPut, c.value()
	case history.Delete:
		m.Op = wire.OpDelete
	case history.CAS:
		m.Op, op.Value = wire.OpCAS, c.value()
		if c.rng.IntN(2) == 0 {
			op.Expected = c.known[c.key]
		}
		m.Operand = op.Expected
	case history.Add:
		m.Op, op.Delta = wire.OpAdd, uint64(1+c.rng.IntN(3))
		m.Operand = op.Delta
	}
	m.Value = []byte(op.Value)
}

// value is a new value, half of the time one that ADD can work on.
func (c *client) value() string {
	if c.rng.IntN(2) == 0 {
		return string(binary.BigEndian.AppendUint64(nil, uint64(c.number+1)<<32|uint64(c.left)<<8))
	}
	return fmt.Sprintf("client %d, %d to go", c.number, c.left)
}

// attempt sends the operation once more, by itself.
func (c *client) attempt() {
	if to, ok := c.prepare(); ok {
		c.w.noteMessage("sends to", c.endpoint().addr(), to, &c.message)
		c.w.send(packet{c.endpoint().addr(), to, c.message.Append(nil)})
	}
}

// prepare makes the next attempt, under a request id of its own, and chooses where it goes; false if no node is known.
func (c *client) prepare() (to netip.AddrPort, ok bool) {
	c.request++
	request := c.request
	c.w.after(c.pause, func() { c.overdue(request) })
	c.pause = min(2*c.pause, uint64(longestPause))
	v := &c.views[c.shard]
	if len(v.members) == 0 {
		c.reload()
		return to, false
	}
	c.sentTo = v.epoch
	c.message.Request, c.message.Epoch = request, v.epoch
	to = v.members[c.rng.IntN(len(v.members))]
	switch luck := c.rng.Float64(); {
	case c.op.Kind != history.Get && luck < chanceToHead:
		to = v.members[0]
	case c.op.Kind == history.Get && luck < chanceNear && request == c.first:
		to = v.members[c.near%len(v.members)]
	}
	return to, true
}

// overdue is the timeout of an attempt.
func (c *client) overdue(request uint64) {
	switch {
	case c.op == nil || request != c.request:
		return
	case c.w.now >= c.deadline:
		c.giveUp()
		return
	case c.rng.Float64() < c.w.Reload:
		c.reload()
	}
	c.attempt()
}

func (c *client) giveUp() {
	c.complete(history.Result{})
	c.session += 1 << sessionShift
	c.seq = 0
}

// refused ends an operation that certainly had no effect, for want of a session entry (W14). The history has nothing of it.
func (c *client) refused() {
	c.w.note(int(c.shard), c.key, "client %d is refused: %s", c.number, c.op)
	c.w.result.Refused++
	c.session += 1 << sessionShift
	c.seq = 0
	c.w.finished(c)
	c.op = nil
	c.think()
}

// reload asks any controller for the map; the answer may be old, and late.
func (c *client) reload() {
	from := c.w.controllers[c.rng.IntN(len(c.w.controllers))]
	c.w.net.carry(control, c.endpoint(), from.endpoint(), func(bool) {
		views := from.views()
		c.w.net.carry(control, from.endpoint(), c.endpoint(), func(bool) { c.learn(views) })
	})
}

func (c *client) learn(views []view) {
	for i, v := range views {
		if v.epoch > c.views[i].epoch {
			c.views[i] = v
		}
	}
}

func (c *client) receive(b []byte) {
	var m wire.Message
	if c.op == nil || wire.DecodeReply(b, &m) != nil || m.Request < c.first || m.Request > c.request {
		return
	}
	if c.op.Kind == history.Get && m.Request != c.request {
		return
	}
	result := history.Result{Version: m.Version, Read: string(m.Value), NoValue: m.Flags&wire.FlagNoValue != 0}
	switch m.Status() {
	case wire.StatusOk:
		result.Outcome = history.OK
	case wire.StatusNotFound:
		result.Outcome = history.NotFound
	case wire.StatusCASFailed:
		result.Outcome = history.Failed
	case wire.StatusBadRequest:
		result.Outcome = history.NotCounter
	case wire.StatusNotMine:
		c.reload()
		return
	case wire.StatusBusy:
		if m.Request == c.request && m.Request == c.bundled { // it may be that it has to come alone
			c.attempt()
		}
		return
	case wire.StatusFull:
		if m.Flags&wire.FlagSession != 0 && m.Epoch == c.sentTo {
			c.refused()
		}
		return
	default:
		return
	}
	// A refusal binds only the epoch it was made in: an attempt already sent in a newer one may yet take effect.
	refusal := result.Outcome == history.Failed || result.Outcome == history.NotCounter
	if refusal && m.Epoch != c.sentTo {
		return
	}
	c.complete(result)
}

func (c *client) complete(r history.Result) {
	c.op.Result, c.op.Return = r, int64(c.w.now)
	if r.Outcome != history.Unknown {
		c.known[c.key] = r.Version
	}
	c.w.note(int(c.shard), c.key, "%s", c.op)
	if c.counts {
		if c.w.watch.lost[c.shard] { // the answer is of another lineage, but a write may have been read before
			c.op.Result = history.Result{}
		}
		c.w.result.History = append(c.w.result.History, *c.op)
	}
	c.w.finished(c)
	c.op = nil
	c.think()
}
