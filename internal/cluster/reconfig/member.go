package reconfig

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
)

// Plane is the part of a data plane that a member uses.
type Plane interface {
	Config(shard uint16) (chain.ShardConfig, error)
	ConfigureAll(configs map[uint16]chain.ShardConfig) error
	Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error
}

// MemberOptions configure a member.
type MemberOptions struct {
	Self    netip.AddrPort // of the data plane
	Shards  int            // of the cluster
	Kept    bool           // the plane served an earlier member: it may store data that no chain needs
	Term    uint64         // the highest of any order that an earlier member on the same plane applied
	Without Rule           // rules switched off; zero outside tests
}

// Member is a node's part of a change. It applies the newest order of the newest leader completely or, if any part of it
// is wrong, not at all. Its caller does the long tasks of [Member.Work]: it copies shards to this node, and deletes shards
// that the node left. A node joins a shard again only after the shard is deleted.
//
// A node keeps its data when its chain changes in these cases. A full member of a shard, and a learner that stays one in
// the next epoch, keep everything. A full member that leaves keeps committed data if the order says so, with the epoch as
// base: it needs only later changes to join again (C7). It first gives up versions that may not be committed (C8), because
// such a version number may belong to another write by now. All other nodes begin empty (C4).
type Member struct {
	options MemberOptions
	plane   Plane
	configs []chain.ShardConfig // as the plane has them: only the member changes them

	term    uint64
	seen    uint64 // number of the newest order of the term
	done    uint64 // number of the newest that was applied
	order   *Order // the newest, until it is applied completely
	refused string // reason why it cannot be

	wiping   map[uint16]struct{} // shards that the node is not in, to be deleted
	doubting map[uint16]struct{} // shards that the node left and keeps, and that it has not scanned as C8 demands
	copies   map[uint16]*copying
	jobs     uint64 // number of the last
}

// NewMember returns the member of a node, with the present configuration of its plane.
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

// Heartbeat returns the node's report to the controllers; [Lease.Stamp] completes it.
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

// Inventory returns the node's shards; the caller adds the node's identity. It is sent to the leader after the
// registration, and when an order changed [Member.Term].
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

// Order applies as much of an order as it can at once. It ignores an order that is older than one seen before. An error
// comes from the plane: the order can be repeated.
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

// check returns an error if any part of an order is wrong.
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

// applyOrder applies the parts of the order that it can apply now. It is called again when a wipe is done.
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

// clears reports whether data of a shard that the node is not in is still to be deleted.
func (m *Member) clears(shard uint16) bool {
	_, wiping := m.wiping[shard]
	_, doubting := m.doubting[shard]
	return wiping || doubting
}

// base returns the base of the data that the node keeps after an order, outside the chain or as a learner; 0: it keeps none.
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

// keeps reports whether the node keeps the data of a shard in its next configuration.
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

// leftIn returns the epoch in which a node leaves a shard. The node may join again only in a later epoch, so this is not
// the epoch that it is about to join.
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

// doubt makes the node give up data as C8 demands, unless the whole shard is to be deleted.
func (m *Member) doubt(shard uint16) {
	if _, wiping := m.wiping[shard]; !wiping && m.options.Without&C8 == 0 {
		m.doubting[shard] = struct{}{}
	}
}

// MayExport returns an error if another node must not copy a shard from this one for the chain of an epoch.
func (m *Member) MayExport(shard uint16, epoch uint32) error {
	if int(shard) >= m.options.Shards {
		return Invalid{fmt.Errorf("shard %d: there are %d", shard, m.options.Shards)}
	}
	return MayExport(shard, m.configs[shard], epoch)
}

// MayExport is [Member.MayExport] of a node with a given configuration.
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
