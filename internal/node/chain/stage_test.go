package chain_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// stage is where a story happens. Nodes are named by single letters from h on, clients by those from a to g.
type stage struct {
	t       *testing.T
	options chain.Options
	nodes   map[string]*chain.Node
	order   []string
	flying  []flight
	keys    map[wire.Key]string
	request uint64
}

// flight is a message on its way.
type flight struct {
	from, to string
	message  wire.Message // for showing
	bytes    []byte
}

const firstNode = "h"

func newStage(t *testing.T) *stage {
	return &stage{
		t: t, nodes: make(map[string]*chain.Node), keys: make(map[wire.Key]string),
		options: chain.Options{Shards: 1, CellBytes: 64, MaxObjects: 64, MaxSessions: 64},
	}
}

func addrOf(name string) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, name[0]}), wire.Port)
}

func nameOf(a netip.AddrPort) string {
	b := a.Addr().As4()
	return string(rune(b[3]))
}

func (s *stage) check(err error) {
	if err != nil {
		s.t.Helper()
		s.t.Fatal(err)
	}
}

// do runs one command and returns the results.
func (s *stage) do(command string) []string {
	words := strings.Fields(command)
	switch words[0] {
	case "without":
		rule, err := chain.ParseRule(words[1])
		s.check(err)
		s.options.Without |= rule
	case "relay":
		s.options.Relay = true
	case "chain": // chain h,i,j: new nodes, active in epoch 1, with leases
		s.order = strings.Split(words[1], ",")
		for _, name := range s.order {
			s.nodes[name] = chain.New(s.options)
			s.configure(name, words[1], 1, chain.Active)
			s.check(s.nodes[name].Grant(0, chain.Forever))
		}
	case "freeze", "activate": // freeze i 2 i,j: node i, in epoch 2, of chain i,j
		epoch, err := strconv.ParseUint(words[2], 10, 32)
		s.check(err)
		state := chain.Frozen
		if words[0] == "activate" {
			state = chain.Active
		}
		s.configure(words[1], words[3], uint32(epoch), state)
	case "lease": // lease j none|forever
		until := uint64(0)
		if words[2] == "forever" {
			until = chain.Forever
		}
		s.check(s.nodes[words[1]].Grant(0, until))
	case "crash":
		delete(s.nodes, words[1])
	case "sync": // sync i,j: C2, from the first to the others
		s.sync(strings.Split(words[1], ","))
	case "state":
		return s.state(s.key(words[1]))
	case "resync":
		return s.resync(words[1], s.key(words[2]))
	case "probe":
		return s.probe(words[1], s.key(words[2]))
	case "deliver", "lose", "copy":
		return s.move(words)
	case "run":
		return s.run()
	default: // a h put k x 1: client a asks h to put x under k with seq 1
		return s.ask(words)
	}
	return nil
}

func (s *stage) configure(name, members string, epoch uint32, state chain.State) {
	c := chain.ShardConfig{Epoch: epoch, State: state}
	for i, m := range strings.Split(members, ",") {
		c.Members = append(c.Members, addrOf(m))
		if m == name {
			c.Self = i
		}
	}
	s.check(s.nodes[name].Configure(0, c))
}

func (s *stage) key(name string) wire.Key {
	k, err := wire.HashKey([]byte(name))
	s.check(err)
	s.keys[k] = name
	return k
}

// ask reads "CLIENT NODE OP KEY [ARGUMENT...] [SEQ] [epoch=N]".
func (s *stage) ask(words []string) []string {
	s.request++
	m := wire.Message{Epoch: 1, Request: s.request, Key: s.key(words[3])}
	if last := words[len(words)-1]; strings.HasPrefix(last, "epoch=") {
		epoch, err := strconv.ParseUint(last[len("epoch="):], 10, 32)
		s.check(err)
		m.Epoch, words = uint32(epoch), words[:len(words)-1]
	}
	for _, op := range wire.Ops {
		if op.String() == words[2] {
			m.Op = op
		}
	}
	number := func(i int) uint64 {
		n, err := strconv.ParseUint(words[i], 10, 64)
		s.check(err)
		return n
	}
	switch m.Op {
	case wire.OpPut:
		m.Value = []byte(words[4])
	case wire.OpCAS:
		m.Operand, m.Value = number(4), []byte(words[5])
	case wire.OpAdd:
		m.Operand = number(4)
	}
	if m.Op != wire.OpRead {
		m.Session, m.Seq = uint64(words[0][0]), number(len(words)-1)
	}
	return s.send(words[0], chain.Send{To: addrOf(words[1]), Message: m})
}

func (s *stage) send(from string, out chain.Send) []string {
	f := flight{from, nameOf(out.To), out.Message, out.Message.Append(nil)}
	f.message.Value = slices.Clone(f.message.Value)
	s.flying = append(s.flying, f)
	return []string{s.show(&f)}
}

// move reads "deliver|lose|copy FROM->TO [OP]" and takes the oldest message that fits; copy delivers and keeps it.
func (s *stage) move(words []string) []string {
	from, to, _ := strings.Cut(words[1], "->")
	for i, f := range s.flying {
		if f.from != from || f.to != to || (len(words) > 2 && f.message.Op.String() != words[2]) {
			continue
		}
		if words[0] != "copy" {
			s.flying = slices.Delete(s.flying, i, i+1)
		}
		if words[0] == "lose" {
			return []string{"lost: " + s.show(&f)}
		}
		return s.deliver(f)
	}
	s.t.Fatalf("%s: no such message is on its way", strings.Join(words, " "))
	return nil
}

func (s *stage) deliver(f flight) []string {
	node := s.nodes[f.to]
	if node == nil {
		if f.to < firstNode {
			return []string{f.to + " gets " + s.what(&f.message)}
		}
		return []string{f.to + " is down"}
	}
	before := make(chain.Counters)
	for c, n := range node.Counters() {
		before[c] = n
	}
	sends := node.Receive(1, addrOf(f.from), f.bytes, nil)
	var lines []string
	for c, n := range node.Counters() {
		if n != before[c] {
			lines = append(lines, fmt.Sprintf("%s: %v %v", f.to, c.Op, c.Outcome))
		}
	}
	for _, out := range sends {
		lines = append(lines, s.send(f.to, out)...)
	}
	return lines
}

// run delivers everything, the oldest first.
func (s *stage) run() []string {
	var lines []string
	for len(s.flying) > 0 {
		f := s.flying[0]
		s.flying = s.flying[1:]
		lines = append(lines, s.deliver(f)...)
	}
	return lines
}

func (s *stage) show(f *flight) string { return f.from + "->" + f.to + " " + s.what(&f.message) }

func (s *stage) what(m *wire.Message) string {
	text := m.Op.String()
	if m.Op == wire.OpReply {
		text += " " + m.Status().String()
	}
	if m.ClientOp != 0 {
		text += " " + m.ClientOp.String()
	}
	text += " " + s.keys[m.Key]
	if m.Version != 0 {
		text += fmt.Sprintf(" version %d", m.Version)
	}
	if len(m.Value) != 0 {
		text += " " + showValue(m.Value)
	}
	return text
}

func showValue(v []byte) string {
	if len(v) == 8 {
		return strconv.FormatUint(binary.BigEndian.Uint64(v), 10)
	}
	return strconv.Quote(string(v))
}

func (s *stage) state(key wire.Key) []string {
	var lines []string
	for _, name := range s.order {
		if s.nodes[name] == nil {
			continue
		}
		line := name + " has nothing"
		if o := s.nodes[name].Objects()[key]; o != nil {
			line = fmt.Sprintf("%s has version %d, committed %d: %s", name, o.Version, o.Committed, showValue(o.Value))
			if o.Tombstone {
				line = fmt.Sprintf("%s has version %d, committed %d: a tombstone", name, o.Version, o.Committed)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *stage) resync(name string, key wire.Key) []string {
	node := s.nodes[name]
	o := node.Objects()[key]
	var session uint64
	var writer chain.Session
	for k, candidate := range node.Sessions() {
		if candidate.WriterOf(key, o.Version) {
			session, writer = k.Session, candidate
		}
	}
	out, ok := chain.Resync(node.Config(0), 0, key, *o, writer, session, uint64(name[0]))
	if !ok {
		return []string{"nothing to resync"}
	}
	return s.send(name, out)
}

func (s *stage) probe(name string, key wire.Key) []string {
	node := s.nodes[name]
	out, ok := chain.Probe(node.Config(0), 0, key, *node.Objects()[key])
	if !ok {
		return []string{"nothing to ask"}
	}
	return s.send(name, out)
}

// sync is C2 at once.
func (s *stage) sync(members []string) {
	head := s.nodes[members[0]]
	for _, name := range members[1:] {
		node := s.nodes[name]
		for key, o := range head.Objects() {
			if have := node.Objects()[key]; have == nil || have.Version < o.Version {
				node.PutObject(key, *o)
			}
		}
		for k, session := range head.Sessions() {
			if session.Seq > node.Sessions()[k].Seq {
				node.PutSession(k, session)
			}
		}
	}
	for _, name := range members {
		for _, o := range s.nodes[name].Objects() {
			o.Committed = o.Version
		}
	}
}
