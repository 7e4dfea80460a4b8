package p4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/wire"
)

// Constants of the program: see p4/headers.p4.
const (
	// CellBytes is the longest value that a cell has room for.
	CellBytes = 64
	// MaxObjects is how many keys have a place.
	MaxObjects   = 65536
	sessionSlots = 16384
	sessionWays  = 4
	fewSlots     = 256
	// MaxSessions is the number of session entries.
	MaxSessions  = sessionSlots * sessionWays
	counterArray = 16384
	// PlatformBytes is the length of platform_h, which is in front of a frame to the CPU port.
	PlatformBytes = 16
	offReason     = 10
	offPort       = 11
	offCopies     = 12
	offNote       = 14
	valueWords    = 8
	tombstoneBit  = 0x100
	lengthBits    = 0xff
)

// Places of a chain's members relative to this node: see p4/headers.p4.
const (
	roleMember   = 1
	rolePrevious = 2
	roleNext     = 4
	roleTail     = 8
)

// Why a frame comes to the CPU port.
const (
	cpuObject    = 1
	cpuRoute     = 2
	cpuHeartbeat = 3
	cpuAnswer    = 4
)

// leaseOfNode is the lease of a shard that has none of its own: see p4/headers.p4.
const leaseOfNode = 1

// CheckOptions says whether the program can be a node with these options.
func CheckOptions(o chain.Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	switch {
	case o.CellBytes > CellBytes:
		return fmt.Errorf("a p4 node stores values of up to %d bytes, not %d: lower --cell-bytes", CellBytes, o.CellBytes)
	case o.MaxObjects > MaxObjects:
		return fmt.Errorf("a p4 node has places for %d keys, not %d: lower --objects", MaxObjects, o.MaxObjects)
	case o.MaxSessions > MaxSessions:
		return fmt.Errorf("a p4 node has room for %d sessions, not %d: lower --sessions", MaxSessions, o.MaxSessions)
	case o.Tags != wire.TagsOff:
		return fmt.Errorf("%w: run the cluster without them", errNoTags)
	case o.ClientRate > 0:
		return errors.New("a p4 node does not limit rates: set none")
	case o.ClientSessions > 0:
		return errors.New("a p4 node does not limit the sessions of a client: set no limit")
	case o.Without != 0:
		return errors.New("a p4 node follows all rules: none can be switched off")
	}
	return nil
}

// Node is the control plane of one node.
type Node struct {
	sw      Switch
	self    netip.AddrPort
	options chain.Options
	stepper Stepper       // nil: the control plane has the registers
	number  atomic.Uint64 // of the last step
	made    made
	ahead   atomic.Int64 // the time that the clock of a switch without registers is ahead, or less

	mu      sync.Mutex
	places  map[wire.Key]uint32
	keys    []wire.Key // by place; zero if it is free
	used    []bool
	free    []uint32
	configs map[uint16]chain.ShardConfig
	leases  map[uint16]uint64 // of shards that have one of their own
	renewed uint64            // the node's lease
	full    bool
	stopped bool        // the switch's clock
	hearts  *chain.Node // handles heartbeats, and nothing else
}

// NewNode makes a node without state of a switch that has none.
func NewNode(sw Switch, self netip.AddrPort, o chain.Options) (*Node, error) {
	if err := CheckOptions(o); err != nil {
		return nil, err
	}
	n := &Node{
		sw: sw, self: self, options: o, places: make(map[wire.Key]uint32),
		configs: make(map[uint16]chain.ShardConfig), leases: make(map[uint16]uint64), hearts: chain.New(o),
	}
	var r Request
	r.Insert(Entry{
		Table: tableLocal, Match: []uint64{Address(self.Addr()), uint64(self.Port())}, Action: actionNode,
		Args: []Arg{
			{"shard_mask", uint64(o.Shards - 1)}, {"cell_bytes", uint64(o.CellBytes)},
			{"slot_mask", uint64(n.slots() - 1)}, {"max_entries", uint64(o.MaxSessions)},
		},
	})
	if err := sw.Do(&r); err != nil {
		return n, err
	}
	return n, n.beginSteps()
}

// place returns a key's place; ok is false if it has none.
func (n *Node) place(k wire.Key) (uint32, bool) {
	p, ok := n.places[k]
	return p, ok
}

// give finds a place for a key without one, and adds its entry to r. The registers of a free place are zero.
func (n *Node) give(r *Request, k wire.Key) (uint32, bool) {
	var p uint32
	switch {
	case len(n.free) > 0:
		p, n.free = n.free[len(n.free)-1], n.free[:len(n.free)-1]
	case len(n.keys) < n.options.MaxObjects:
		p = uint32(len(n.keys))
		n.keys, n.used = append(n.keys, wire.Key{}), append(n.used, false)
	default:
		return 0, false
	}
	n.keys[p], n.used[p], n.places[k] = k, true, p
	r.Insert(Entry{Table: tableObjects, Match: []uint64{k.Hi, k.Lo}, Action: actionObject, Args: []Arg{{"index", uint64(p)}}})
	return p, true
}

// take is the reverse of give: the key has no place any more.
func (n *Node) take(r *Request, k wire.Key) {
	p, ok := n.forgetPlace(k)
	if !ok {
		return
	}
	r.Delete(Entry{Table: tableObjects, Match: []uint64{k.Hi, k.Lo}})
	n.zero(r, p)
	n.setFull(r, false)
}

// zero makes a place that of no object.
func (n *Node) zero(r *Request, place uint32) {
	if n.stepper == nil {
		writeCell(r, place, new(cell))
		return
	}
	s := newStep(stepClear, nil)
	s.put32(offBaseEpoch, place)
	r.ask(s, nil)
	for _, array := range countArrays {
		r.Write(array, int(place), 0)
	}
}

// forgetPlace makes the place of a key a free one.
func (n *Node) forgetPlace(k wire.Key) (uint32, bool) {
	p, ok := n.places[k]
	if ok {
		delete(n.places, k)
		n.keys[p], n.used[p] = wire.Key{}, false
		n.free = append(n.free, p)
	}
	return p, ok
}

func (n *Node) setFull(r *Request, full bool) {
	if n.full == full {
		return
	}
	n.full = full
	value := uint64(0)
	if full {
		value = 1
	}
	if n.stepper == nil {
		r.Write(regFull, 0, value)
		return
	}
	s := newStep(stepFull, nil)
	s[offChainClientOp] = byte(value)
	r.ask(s, nil)
}

// wants handles a frame that needs a place for its key. It returns the frame to be handed in again.
func (n *Node) wants(left []byte) (port int, again []byte, err error) {
	if len(left) < PlatformBytes+frame.HeaderBytes+wire.BaseBytes {
		return 0, nil, fmt.Errorf("a frame of %d bytes for the CPU", len(left))
	}
	port, again = int(left[offPort]), left[PlatformBytes:]
	message := again[frame.HeaderBytes:]
	k := wire.Key{Hi: binary.BigEndian.Uint64(message[offKeyHi:]), Lo: binary.BigEndian.Uint64(message[offKeyHi+8:])}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.place(k); ok {
		return port, again, nil
	}
	var r Request
	if _, ok := n.give(&r, k); !ok {
		n.setFull(&r, true)
	}
	if err = n.do(&r); err != nil {
		n.forgetPlace(k) // else its frames would come back for ever
	}
	return port, again, err
}

// again hands a frame in again. Nothing else of the control plane is under way then: to change what frames change, too, it
// holds off those from interfaces, and the lock those from here.
func (n *Node) again(port int, frame []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sw.Put(port, frame)
}

// offKeyHi is where a message's key begins.
const offKeyHi = 24

// ErrFloor says that a configuration has a floor (G1), which the switch does not count from.
var ErrFloor = errors.New("a P4 node gives versions from 1 on: it takes no shard with a floor, as after an accepted loss or a restore")

// ConfigureAll is [dataplane.Plane].ConfigureAll.
func (n *Node) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	if err := chain.ValidateAll(configs, n.options.Shards); err != nil {
		return err
	}
	for number, c := range configs {
		if c.Floor != 0 {
			return fmt.Errorf("shard %d: %w", number, ErrFloor)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var r Request
	for _, c := range configs {
		if c.Readable() {
			n.nodeLease(&r)
			break
		}
	}
	for number, c := range configs {
		was := n.configs[number]
		n.removeMembers(&r, number, &was)
		r.Insert(n.shardEntry(number, &c))
		for i, m := range c.Members {
			if c.State == chain.None || i == c.Self {
				continue
			}
			r.Insert(member(number, m, roleOf(&c, i)))
			if n.clones(&c) {
				r.Insert(group(number, i, m))
			}
		}
		switch is := c.Readable(); {
		case was.Readable() && !is:
			delete(n.leases, number)
			n.lease(&r, number, false)
		case is && !was.Readable():
			if n.renewed != 0 {
				delete(n.leases, number)
			}
			n.lease(&r, number, true)
		}
	}
	if err := n.do(&r); err != nil {
		return err
	}
	for number, c := range configs {
		c.Members = slices.Clone(c.Members)
		n.configs[number] = c
	}
	return nil
}

// removeMembers takes out the entries of a shard's members.
func (n *Node) removeMembers(r *Request, number uint16, c *chain.ShardConfig) {
	for i, m := range c.Members {
		if c.State == chain.None || i == c.Self {
			continue
		}
		r.Delete(member(number, m, 0))
		if n.clones(c) {
			r.Delete(group(number, i, m))
		}
	}
}

// clones says whether this node is a tail that sends an ACK to each other member (W7).
func (n *Node) clones(c *chain.ShardConfig) bool {
	return !n.options.Relay && c.State != chain.None && c.Tail() && !c.Head()
}

// group is the entry for the copy of an ACK that a member gets. Copy 0 is the client's answer.
func group(shard uint16, i int, m netip.AddrPort) Entry {
	return Entry{
		Table: tableGroup, Match: []uint64{uint64(shard), uint64(i + 1)}, Action: actionCopy,
		Args: []Arg{{"address", Address(m.Addr())}, {"port", uint64(m.Port())}},
	}
}

func roleOf(c *chain.ShardConfig, i int) uint64 {
	role := uint64(roleMember)
	if i == c.Self-1 {
		role |= rolePrevious
	}
	if i == c.Self+1 {
		role |= roleNext
	}
	if i == len(c.Members)-1 {
		role |= roleTail
	}
	return role
}

func member(shard uint16, m netip.AddrPort, role uint64) Entry {
	return Entry{
		Table: tableMembers, Match: []uint64{uint64(shard), Address(m.Addr()), uint64(m.Port())},
		Action: actionMember, Args: []Arg{{"role", role}},
	}
}

func (n *Node) shardEntry(shard uint16, c *chain.ShardConfig) Entry {
	e := Entry{Table: tableShards, Match: []uint64{uint64(shard)}, Action: actionChain, Args: []Arg{
		{"epoch", uint64(c.Epoch)}, {"state", uint64(c.State)},
	}}
	bit := func(name string, b bool) {
		v := uint64(0)
		if b {
			v = 1
		}
		e.Args = append(e.Args, Arg{name, v})
	}
	in := c.State != chain.None
	bit("head", in && c.Head())
	bit("tail", in && c.Tail())
	bit("learner", c.Learner)
	at := func(name string, i int) {
		var m netip.AddrPort
		if in && i >= 0 && i < len(c.Members) {
			m = c.Members[i]
		}
		address := uint64(0)
		if m.IsValid() {
			address = Address(m.Addr())
		}
		e.Args = append(e.Args, Arg{name + "_address", address}, Arg{name + "_port", uint64(m.Port())})
	}
	at("head", 0)
	at("tail", len(c.Members)-1)
	at("next", c.Self+1)
	at("previous", c.Self-1)
	copies := uint64(0)
	if n.clones(c) {
		copies = uint64(len(c.Members))
	}
	e.Args = append(e.Args, Arg{"copies", copies})
	return e
}

// Config is [dataplane.Plane].Config.
func (n *Node) Config(shard uint16) (chain.ShardConfig, error) {
	if err := n.check(shard); err != nil {
		return chain.ShardConfig{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.configs[shard], nil
}

func (n *Node) check(shard uint16) error {
	if int(shard) >= n.options.Shards {
		return fmt.Errorf("shard %d: there are %d", shard, n.options.Shards)
	}
	return nil
}

// lease sets the end of a shard's lease. A readable one without a lease of its own has the node's.
func (n *Node) lease(r *Request, shard uint16, readable bool) {
	until, own := n.leases[shard]
	switch {
	case readable && !own:
		until = leaseOfNode
	case readable:
		until = n.extended(until)
	}
	if own && until <= leaseOfNode {
		until = 0
	}
	if n.stepper == nil {
		r.Write(regLease, int(shard), until)
		return
	}
	s := newStep(stepLease, nil)
	s.put16(offBaseShard, shard)
	s.put(offChainVersion, n.onSwitch(until))
	r.ask(s, nil)
}

// nodeLease sets the end of the lease of all shards that are readable and have none of their own.
func (n *Node) nodeLease(r *Request) {
	until := n.extended(n.renewed)
	if n.stepper == nil {
		r.Write(regNodeLease, 0, until)
		return
	}
	s := newStep(stepNode, nil)
	s.put(offChainVersion, n.onSwitch(until))
	r.ask(s, nil)
}

// extended is the end of a lease that heartbeats may have granted for longer, or found void.
func (n *Node) extended(until uint64) uint64 {
	granted := n.hearts.Granted()
	if until == chain.Forever {
		return until
	}
	if until <= granted.Void {
		until = 0
	}
	return max(until, granted.Until)
}

// SetHeart is [dataplane.Plane].SetHeart. The program sends heartbeats to the CPU port: their tags are beyond a switch.
func (n *Node) SetHeart(h chain.Heart) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hearts.SetHeart(h)
	return nil
}

// Granted is [dataplane.Plane].Granted.
func (n *Node) Granted() (chain.Granted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hearts.Granted(), nil
}

// beats handles the frame of a heartbeat, and returns the answer's; nil if there is none.
func (n *Node) beats(now uint64, f []byte) (answer []byte, err error) {
	var p frame.Packet
	if outcome, ours := frame.Judge(f, n.self, &p); !ours || outcome != wire.Accepted {
		return nil, fmt.Errorf("a frame of %d bytes is no heartbeat", len(f))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.hearts.Granted()
	message := n.hearts.ReceiveHeartbeat(now, p.Message, nil)
	if after := n.hearts.Granted(); after.Until != before.Until || after.Void != before.Void {
		var r Request
		n.nodeLease(&r)
		for shard := range n.leases {
			if c := n.configs[shard]; c.Readable() {
				n.lease(&r, shard, true)
			}
		}
		if err := n.do(&r); err != nil {
			return nil, err
		}
	}
	if len(message) == 0 {
		return nil, nil
	}
	return frame.Append(nil, &frame.Packet{
		SourceMAC: p.DestMAC, DestMAC: p.SourceMAC, From: n.self, To: p.From, Message: message,
	}), nil
}

// GrantUntil sets the end of one shard's lease.
func (n *Node) GrantUntil(shard uint16, until uint64) error {
	if err := n.check(shard); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var r Request
	c := n.configs[shard]
	n.leases[shard] = until
	n.lease(&r, shard, c.Readable())
	return n.do(&r)
}

// Renew is [dataplane.Plane].Renew.
func (n *Node) Renew(until uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.renewed = until
	n.hearts.Renew(until)
	if !n.reads() {
		return nil // ConfigureAll sets it
	}
	var r Request
	n.nodeLease(&r) // first: a shard that loses its own lease must not get one that has ended
	for shard := range n.leases {
		if c := n.configs[shard]; c.Readable() {
			delete(n.leases, shard)
			n.lease(&r, shard, true)
		}
	}
	return n.do(&r)
}

// reads reports whether a shard is readable.
func (n *Node) reads() bool {
	for _, c := range n.configs {
		if c.Readable() {
			return true
		}
	}
	return false
}

// Counters is [dataplane.Plane].Counters.
func (n *Node) Counters() (chain.Counters, error) {
	counters := make(chain.Counters)
	var r Request
	r.Scan(regOutcomes, 0, counterArray, func(i int, v uint64) {
		counters[chain.Counter{Op: wire.Op(i >> 6), Outcome: wire.Outcome(i & 63)}] = v
	})
	if err := n.do(&r); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, v := range n.hearts.Counters() {
		counters[c] += v
	}
	return counters, nil
}

// Loads is [dataplane.Plane].Loads.
func (n *Node) Loads() ([]dataplane.ShardLoad, error) {
	loads := make([]dataplane.ShardLoad, n.options.Shards)
	var r Request
	r.Scan(regShardReads, 0, n.options.Shards, func(i int, v uint64) { loads[i].Reads = v })
	r.Scan(regShardWrites, 0, n.options.Shards, func(i int, v uint64) { loads[i].Writes = v })
	return loads, n.do(&r)
}
