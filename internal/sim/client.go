package sim

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/history"
	"github.com/netcraq/netcraq/wire"
)

const (
	maxAttempts  = 12
	chanceRetry  = 0.04 // that a waiting client's timeout is over, each time it is looked at
	chanceReload = 0.5  // that a retrying client asks for the configuration first
	clientPort   = 50000
	laneShift    = 16
)

// client is one client with one operation at a time.
type client struct {
	w       *world
	index   int
	addr    netip.AddrPort
	left    int // operations to start
	epoch   uint32
	members []netip.AddrPort
	session uint64 // the lane for writes
	seq     uint64

	op       *history.Op // nil while idle
	message  wire.Message
	attempts int
	first    uint64 // request id of the operation's first attempt; later ones follow
	request  uint64 // of the latest attempt
	known    map[string]uint64
}

func newClient(w *world, index int) *client {
	c := &client{
		w: w, index: index, left: w.Ops, session: uint64(index + 1), request: uint64(index+1) << 32,
		addr:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(index + 1)}), clientPort),
		known: make(map[string]uint64),
	}
	c.reload()
	return c
}

func (c *client) done() bool { return c.left == 0 && c.op == nil }

// reload reads the current configuration.
func (c *client) reload() { c.epoch, c.members = c.w.epoch, c.w.members() }

func (c *client) act() {
	switch {
	case c.done():
	case c.op == nil:
		c.start()
	case c.w.chance(chanceRetry):
		c.retry()
	}
}

func (c *client) start() {
	c.left--
	c.attempts = 0
	rng := c.w.rng
	i := rng.IntN(len(c.w.keys))
	op := &history.Op{Client: c.index, Kind: history.Kind(rng.IntN(5)), Key: keyName(i), Call: int64(c.w.now)}
	if rng.IntN(3) == 0 {
		op.Kind = history.Get
	}
	c.op, c.first = op, c.request+1
	c.message = wire.Message{Key: c.w.keys[i]}
	m := &c.message
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
		if rng.IntN(2) == 0 {
			op.Expected = c.known[op.Key]
		}
		m.Operand = op.Expected
	case history.Add:
		m.Op, op.Delta = wire.OpAdd, uint64(1+rng.IntN(3))
		m.Operand = op.Delta
	}
	m.Value = []byte(op.Value)
	c.attempt()
}

// value is a new value, half of the time one that ADD can work on.
func (c *client) value() string {
	if c.w.rng.IntN(2) == 0 {
		return string(binary.BigEndian.AppendUint64(nil, uint64(c.index+1)<<16|uint64(c.left)<<4))
	}
	return fmt.Sprintf("client %d, %d to go", c.index, c.left)
}

// attempt sends the operation once more, under a request id of its own (W10).
func (c *client) attempt() {
	c.attempts++
	c.request++
	c.message.Request, c.message.Epoch = c.request, c.epoch
	to := c.members[c.w.rng.IntN(len(c.members))]
	if c.op.Kind != history.Get && c.w.rng.IntN(4) > 0 {
		to = c.members[0]
	}
	c.w.send(c.addr, chain.Send{To: to, Message: c.message})
}

func (c *client) retry() {
	if c.attempts == maxAttempts {
		c.complete(history.Result{})
		c.session += 1 << laneShift
		c.seq = 0
		return
	}
	if c.w.chance(chanceReload) {
		c.reload()
	}
	c.attempt()
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
	default:
		return
	}
	// A refusal binds only the epoch it was made in: an attempt already sent in a newer one may yet take effect.
	refusal := result.Outcome == history.Failed || result.Outcome == history.NotCounter
	if refusal && m.Epoch != c.message.Epoch {
		return
	}
	c.complete(result)
}

func (c *client) complete(r history.Result) {
	c.op.Result, c.op.Return = r, int64(c.w.now)
	if r.Outcome != history.Unknown {
		c.known[c.op.Key] = r.Version
	}
	c.w.result.History = append(c.w.result.History, *c.op)
	c.op = nil
}
