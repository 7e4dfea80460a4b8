package membersim

import (
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/member/core"
	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

const (
	chainLength  = 2
	calmPatience = 20 * ms
	repairAfter  = 5 * ms
	// held is how often a message waits until a fault has ended.
	held = 0.2
	// heldLonger bounds how long after the end.
	heldLonger = 20 * ms
	// lineageVersions is the distance of the versions before and after a loss of all state.
	lineageVersions = 1 << 40
)

// shard is a chain of real nodes.
type shard struct {
	w      *world
	number int
	epoch  uint32
	nodes  []*chain.Node
	away   uint64
}

func nodeAddress(shard, node int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(shard), byte(node)}), 1)
}

// newShard makes a shard without state, whose versions are above those of earlier epochs.
func (w *world) newShard(number int, epoch uint32) *shard {
	s := &shard{w: w, number: number, epoch: epoch}
	var addresses []netip.AddrPort
	for i := range chainLength {
		addresses = append(addresses, nodeAddress(number, i))
	}
	for i := range chainLength {
		n := chain.New(chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 64, MaxSessions: 1 << 12})
		err := n.Configure(0, chain.ShardConfig{
			Epoch: epoch, State: chain.Active, Self: i, Members: addresses, Floor: uint64(epoch) * lineageVersions,
		})
		if err == nil {
			err = n.Grant(0, chain.Forever)
		}
		if err != nil {
			panic(err) // the configuration is fixed
		}
		s.nodes = append(s.nodes, n)
	}
	s.repair()
	return s
}

// repair lets the head send the update of an object again that stays dirty, as a node's agent does.
func (s *shard) repair() {
	w := s.w
	w.After(repairAfter, func() {
		if len(w.shards) > s.number && w.shards[s.number] != s {
			return // it has lost its state
		}
		head := s.nodes[0]
		for _, m := range w.members {
			number, key := w.keyOf(m.id)
			if o := head.Objects()[key]; number == s.number && o != nil && w.Now >= s.away {
				if send, due := chain.Resync(head.Config(0), 0, key, *o, chain.Session{}, 0, m.id); due {
					b := send.Message.Append(nil)
					w.carry(func() { w.arrive(send.To, nodeAddress(s.number, 0), b) })
				}
			}
		}
		s.repair()
	})
}

// keyOf returns the shard and the key of a member's object.
func (w *world) keyOf(member uint64) (shard int, key wire.Key) {
	return int(member) % len(w.shards), wire.Key{Hi: 1, Lo: member}
}

// arrive hands a datagram to a node, and carries on what it sends.
func (w *world) arrive(to, from netip.AddrPort, datagram []byte) {
	address := to.Addr().As4()
	s := w.shards[address[2]]
	if w.Now < s.away {
		if w.happens(LateMessage, held) {
			w.After(s.away-w.Now+w.rng.Uint64N(heldLonger), func() { w.arrive(to, from, datagram) })
		}
		return
	}
	for _, send := range s.nodes[address[3]].Receive(w.Now, from, datagram, nil) {
		b := send.Message.Append(nil)
		if send.To.Addr().As4()[1] == 0 {
			w.carry(func() { w.arrive(send.To, to, b) })
			continue
		}
		m := w.members[send.To.Addr().As4()[3]-1]
		w.carry(func() {
			if l := m.life; l != nil && l.number == int(send.To.Port()) && w.Now >= m.cutChain {
				w.enter(l, func() { l.chain.reply(b) })
			}
		})
	}
}

// chainClient is a process's client of the chain.
type chainClient struct {
	l       *life
	address netip.AddrPort
	calls   map[uint64]func(*wire.Message)
	session uint64
	seq     uint64
}

func newChainClient(l *life) chainClient {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, byte(l.m.id)}), uint16(l.number))
	return chainClient{l: l, address: at, calls: make(map[uint64]func(*wire.Message)), session: l.m.w.rng.Uint64()}
}

func (c *chainClient) reply(b []byte) {
	var m wire.Message
	if wire.DecodeReply(b, &m) != nil {
		return
	}
	if then := c.calls[m.Request]; then != nil {
		then(&m)
	}
}

// call sends a message to some node of a shard, again and again until answered says so or time is out. take returns
// whether it takes a reply for the answer.
func (c *chainClient) call(shard int, make func() wire.Message, take func(*wire.Message) bool, timeout func()) {
	w, l := c.l.m.w, c.l
	request, done := w.id(), false
	c.calls[request] = func(m *wire.Message) {
		if !done && take(m) {
			done = true
			delete(c.calls, request)
		}
	}
	var send func()
	send = func() {
		if done || l.dead {
			return
		}
		m := make()
		m.Request = request
		b, to := m.Append(nil), nodeAddress(shard, w.rng.IntN(chainLength))
		if w.Now >= l.m.cutChain {
			w.carry(func() { w.arrive(to, c.address, b) })
		} else if w.happens(LateMessage, held) {
			w.After(l.m.cutChain-w.Now+w.rng.Uint64N(heldLonger), func() { w.arrive(to, c.address, b) })
		}
		w.After(uint64(w.Again), func() { w.enter(l, send) })
	}
	send()
	patience := uint64(w.Patience)
	if w.calm {
		patience = calmPatience
	}
	w.After(patience, func() {
		w.enter(l, func() {
			if !done {
				done = true
				delete(c.calls, request)
				timeout()
			}
		})
	})
}

func (c *chainClient) read(a core.ReadObjects) {
	l := c.l
	found, missing, failed := make([]core.Found, len(a.Members)), len(a.Members), false
	for i, member := range a.Members {
		number, key := l.m.w.keyOf(member)
		c.call(number, func() wire.Message {
			return wire.Message{Op: wire.OpRead, Key: key}
		}, func(m *wire.Message) bool {
			switch m.Status() {
			case wire.StatusOk:
				found[i] = core.Found{Exists: true, Version: m.Version, Epoch: uint64(m.Epoch), Value: slices.Clone(m.Value)}
			case wire.StatusNotFound:
				found[i] = core.Found{Epoch: uint64(m.Epoch)}
			default:
				return false
			}
			if missing--; missing == 0 && !failed {
				l.event(func() { l.core.Objects(l.now(), a.Call, found, true) })
			}
			return true
		}, func() {
			if !failed {
				failed = true
				l.event(func() { l.core.Objects(l.now(), a.Call, nil, false) })
			}
		})
	}
}

func (c *chainClient) write(a core.WriteObject) {
	l, w := c.l, c.l.m.w
	number, key := w.keyOf(l.m.id)
	c.seq++
	message := wire.Message{
		Op: wire.OpCAS, Key: key, Epoch: uint32(a.Epoch), Session: c.session, Seq: c.seq, Operand: a.Version, Value: a.Object.Encode(),
	}
	if a.AnyVersion {
		message.Op, message.Operand = wire.OpPut, 0
	}
	ended := func(outcome core.Outcome, version uint64) {
		l.event(func() { l.core.Written(l.now(), a.Call, outcome, version) })
	}
	c.call(number, func() wire.Message {
		return message
	}, func(m *wire.Message) bool {
		switch m.Status() {
		case wire.StatusOk:
			w.note("chain has %+v of m%d at %d", a.Object, l.m.id, m.Version)
			ended(core.Done, m.Version)
		case wire.StatusCASFailed, wire.StatusNotMine:
			ended(core.Refused, 0)
		default:
			return false
		}
		return true
	}, func() {
		c.session, c.seq = w.rng.Uint64(), 0
		ended(core.Unknown, 0)
	})
}
