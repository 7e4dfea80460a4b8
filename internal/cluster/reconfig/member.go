package reconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Plane is what a member needs of the node's data plane.
type Plane interface {
	Config(shard uint16) (chain.ShardConfig, error)
	ConfigureAll(configs map[uint16]chain.ShardConfig) error
	Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error
}

// MemberOptions say whose part a member plays.
type MemberOptions struct {
	Self    netip.AddrPort // of the data plane
	Shards  int            // of the cluster
	Kept    bool           // the plane outlived an earlier member: it may store what no chain needs
	Term    uint64         // the highest of any order that an earlier member on the same plane applied
	Without Rule           // rules switched off; zero outside tests
}

// Member is a node's part of a change. It applies the newest order of the newest leader: all of it or, if it is wrong,
// nothing. What takes long it leaves to its caller, who does what [Member.Work] says until it says otherwise: copy shards
// to this node, and delete those that it left. A shard that is still to be deleted here is not joined before that is done.
//
// What a node may keep when its chain changes: a full member of a shard, and a learner from one epoch to the next,
// everything. A full member that leaves keeps, if the order says so, what is certainly committed, and the epoch as base: what changed
// after it is all that it needs to join again (C7). What may never have been committed it gives up first (C8): that
// version may be another write's by now. Everybody else begins with nothing (C4).
type Member struct {
	options MemberOptions
	plane   Plane
	configs []chain.ShardConfig // as the plane has them: nobody else changes them

	term    uint64
	seen    uint64 // number of the newest order of the term
	done    uint64 // number of the newest that was applied
	order   *Order // the newest, until it is applied completely
	refused string // why it cannot be

	wiping   map[uint16]struct{} // shards that the node is not in, to be deleted
	doubting map[uint16]struct{} // shards that the node left and keeps, and of which it still has what C8 gives up
	copies   map[uint16]*copying
	jobs     uint64 // number of the last
}

// NewMember makes the member of a node whose plane goes on as it is.
func NewMember(plane Plane, o MemberOptions) (*Member, error) {
	m := &Member{
		options: o, plane: plane, term: o.Term, wiping: make(map[uint16]struct{}), doubting: make(map[uint16]struct{}),
		copies: make(map[uint16]*copying),
	}
	for shard := range o.Shards {
		config, err := plane.Config(uint16(shard))
		if err != nil {
			return nil, err
		}
		m.configs = append(m.configs, config)
		switch {
		case config.State != chain.None || !o.Kept || o.Without&C4 != 0:
		case config.Base != 0:
			m.doubt(uint16(shard))
		default:
			m.wipe(uint16(shard))
		}
	}
	return m, nil
}

// Heartbeat is what the controllers shall know; [Lease.Stamp] completes it.
func (m *Member) Heartbeat() Heartbeat {
	b := Heartbeat{Term: m.term, Done: m.done, Refused: m.refused, Wiping: len(m.wiping) + len(m.doubting)}
	for _, shard := range slices.Sorted(maps.Keys(m.copies)) {
		c := m.copies[shard]
		b.Copies = append(b.Copies, Copied{shard, c.epoch, c.objects, c.bytes, c.complete})
		if b.Refused == "" {
			b.Refused = c.hopeless
		}
	}
	return b
}

// Inventory is what the node has; whose it is the caller adds. It is to be told to the leader after its registration, and when an
// order made [Member.Term] another one.
func (m *Member) Inventory() Inventory {
	i := Inventory{Term: m.term, Configs: make(map[uint16]chain.ShardConfig)}
	for shard, config := range m.configs {
		kept := config.State == chain.None && config.Base != 0
		if kept || config.State != chain.None && (!config.Learner || m.copies[uint16(shard)] != nil) {
			i.Configs[uint16(shard)] = config
		}
	}
	return i
}

// Order applies as much of an order as it can at once. An order that is older than one seen before is none. An error is the
// plane's: the order can be given again.
func (m *Member) Order(o Order) error {
	switch {
	case o.Term < m.term && m.options.Without&C5 == 0: // a leader that does not know that it is none (C5)
		return nil
	case o.Term != m.term:
		m.term, m.done = o.Term, 0
	case o.Number < m.seen || o.Number == m.seen && m.order == nil:
		return nil
	}
	m.seen, m.order, m.refused = o.Number, nil, ""
	if err := m.check(o); err != nil {
		m.refused = err.Error()
		return nil
	}
	m.order = &o
	return m.applyOrder()
}

// check refuses an order that is wrong in any part.
func (m *Member) check(o Order) error {
	for _, shard := range slices.Sorted(maps.Keys(o.Configs)) {
		if int(shard) >= m.options.Shards {
			return fmt.Errorf("shard %d: there are %d", shard, m.options.Shards)
		}
		old, next := m.configs[shard], o.Configs[shard]
		if err := CheckStep(m.options.Self, old, next.Config); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
		c := m.copies[shard]
		joins := old.State == chain.None && next.Config.State != chain.None && !next.Config.Learner && !next.Fresh
		if joins && (c == nil || !c.complete) && m.options.Without&C4 == 0 {
			return fmt.Errorf("shard %d: there is no complete copy of it here", shard)
		}
	}
	return nil
}

// applyOrder applies what it can of the order now. It is called again when a wipe is done.
func (m *Member) applyOrder() error {
	configs := make(map[uint16]chain.ShardConfig)
	wait := false
	var wanted []uint16
	for _, shard := range slices.Sorted(maps.Keys(m.order.Configs)) {
		old, next := m.configs[shard], m.order.Configs[shard]
		base := m.base(old, next)
		if !m.keeps(shard, old, next) {
			m.forget(shard)
			if left := (chain.ShardConfig{Epoch: m.leftIn(old, next), Base: base}); !SameConfig(old, left) {
				configs[shard] = left
			}
			if base == 0 {
				m.wipe(shard)
			} else if old.State != chain.None {
				m.doubt(shard)
			}
		}
		if m.clears(shard) && (next.Config.State != chain.None || next.Source != "") {
			wait = true
			continue
		}
		if next.Config.State == chain.None || next.Config.Learner {
			next.Config.Base = base
		}
		if !SameConfig(old, next.Config) {
			configs[shard] = next.Config
		}
		wanted = append(wanted, shard)
	}
	if len(configs) > 0 {
		if err := m.plane.ConfigureAll(configs); err != nil {
			m.refused = err.Error()
			return err
		}
		for shard, config := range configs {
			m.configs[shard] = config
		}
	}
	m.copy(wanted)
	if m.refused = ""; !wait {
		m.done, m.order = m.order.Number, nil
	}
	return nil
}

// clears reports whether something of a shard that the node is not in is still to be deleted.
func (m *Member) clears(shard uint16) bool {
	_, wiping := m.wiping[shard]
	_, doubting := m.doubting[shard]
	return wiping || doubting
}

// base is the epoch from which the node keeps a shard that it is out of, or copies again, after an order; 0: it keeps nothing.
func (m *Member) base(old chain.ShardConfig, next ShardOrder) uint32 {
	base := old.Base
	if old.Readable() {
		base = old.Epoch
	}
	joins := next.Config.Learner || next.Source != ""
	switch {
	case m.options.Without&C4 != 0, next.Fresh, next.Config.Readable():
		return 0
	case joins && m.options.Without&C9 != 0, joins && next.Born != 0 && base >= next.Born, !joins && next.Keep:
		return base
	}
	return 0
}

// keeps reports whether what is stored of a shard here is of use in its next configuration.
func (m *Member) keeps(shard uint16, old chain.ShardConfig, next ShardOrder) bool {
	c, config := m.copies[shard], next.Config
	switch {
	case m.options.Without&C4 != 0:
		return true
	case old.State == chain.None && old.Base != 0 && (next.Fresh || !next.Config.Readable()):
		return m.base(old, next) != 0
	case old.State == chain.None && c == nil:
		return true // there is nothing, or it is wiped already
	case config.State == chain.None: // leaves; or is to have a copy for its time as a member
		return old.State == chain.None && next.Source != "" && c.epoch == config.Epoch
	case old.State == chain.None:
		return !config.Learner && !next.Fresh // the copy that it was to have
	case config.Learner:
		return config.Epoch == old.Epoch || old.Learner && config.Epoch == old.Epoch+1
	}
	return true
}

// leftIn is the epoch of a node that leaves a shard. It may join again in a later one only, so it does not leave in the
// one that it is about to join.
func (m *Member) leftIn(old chain.ShardConfig, next ShardOrder) uint32 {
	if next.Config.State == chain.None {
		return next.Config.Epoch
	}
	return old.Epoch
}

func (m *Member) wipe(shard uint16) {
	delete(m.doubting, shard)
	m.wiping[shard] = struct{}{}
}

// doubt has the node give up what C8 says, unless all of the shard is to be deleted anyway.
func (m *Member) doubt(shard uint16) {
	if _, wiping := m.wiping[shard]; !wiping && m.options.Without&C8 == 0 {
		m.doubting[shard] = struct{}{}
	}
}

// MayExport reports why another node must not copy a shard from here for its chain of some epoch.
func (m *Member) MayExport(shard uint16, epoch uint32) error {
	if int(shard) >= m.options.Shards {
		return Invalid{fmt.Errorf("shard %d: there are %d", shard, m.options.Shards)}
	}
	return MayExport(shard, m.configs[shard], epoch)
}

// MayExport is [Member.MayExport] for a node of which no more is known than how it is configured.
func MayExport(shard uint16, config chain.ShardConfig, epoch uint32) error {
	switch {
	case config.State == chain.None || config.Learner:
		return Refusal{fmt.Errorf("shard %d: this node is no complete member of its chain", shard)}
	case config.Epoch != epoch:
		return Refusal{fmt.Errorf("shard %d: this node is in epoch %d, not %d", shard, config.Epoch, epoch)}
	}
	return nil
}

// Term returns the term of the newest leader whose order was applied.
func (m *Member) Term() uint64 { return m.term }
