package sim

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/verify/harness"
	"github.com/netcraq/netcraq/wire"
)

// plane is a node's data plane on a simulated network and clock.
type plane interface {
	// reset makes it new, without state.
	reset() error
	// receive handles a datagram at a time of the node's clock, and appends the packets that the node sends.
	receive(now uint64, p packet, out []packet) ([]packet, error)

	// As in dataplane.Plane.
	ConfigureAll(configs map[uint16]chain.ShardConfig) error
	Config(shard uint16) (chain.ShardConfig, error)
	Renew(until uint64) error
	SetHeart(h chain.Heart) error
	Granted() (chain.Granted, error)
	Object(key wire.Key) (chain.Object, bool, error)
	Sessions(visit func(chain.SessionKey, chain.Session) bool) error
	DropSession(k chain.SessionKey, seq uint64) error
	Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error
	Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error)
	Doubtful(shards []uint16) ([]wire.Key, error)
	Drop(shards []uint16) error
	Dirty(limit int) ([]dataplane.KeyedObject, error)
	Collect() (map[uint16]dataplane.Tombstones, error)

	Close() error
}

// chainPlane is internal/node/chain itself.
type chainPlane struct {
	self    netip.AddrPort
	options chain.Options
	node    *chain.Node
	out     []chain.Send
	taken   uint // messages
}

// checkedEvery is how many messages a node takes, or a leader, between two looks at the whole of its state.
const checkedEvery = 16

func (p *chainPlane) reset() error {
	p.node = chain.New(p.options)
	return nil
}

func (p *chainPlane) receive(now uint64, in packet, out []packet) ([]packet, error) {
	if wire.IsBundle(in.bytes) {
		bundle := slices.Clone(in.bytes) // copies of it may be under way
		if to, sends := p.node.ReceiveBundle(now, in.from, bundle); sends {
			out = append(out, packet{p.self, to, bundle})
		}
		return out, nil
	}
	if wire.IsHeartbeat(in.bytes) {
		if answer := p.node.ReceiveHeartbeat(now, in.bytes, nil); len(answer) > 0 {
			out = append(out, packet{p.self, in.from, answer})
		}
		return out, nil
	}
	p.out = p.node.Receive(now, in.from, in.bytes, p.out[:0])
	for i := range p.out {
		s := &p.out[i]
		out = append(out, packet{p.self, s.To, s.Message.Append(nil)})
	}
	if p.taken++; p.taken%checkedEvery == 0 {
		return out, p.node.CheckInvariants()
	}
	return out, nil
}

func (p *chainPlane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	return p.node.ConfigureAll(configs)
}

func (p *chainPlane) Config(shard uint16) (chain.ShardConfig, error) {
	return p.node.Config(shard), nil
}

func (p *chainPlane) SetHeart(h chain.Heart) error { p.node.SetHeart(h); return nil }

func (p *chainPlane) Granted() (chain.Granted, error) { return p.node.Granted(), nil }

func (p *chainPlane) Renew(until uint64) error { p.node.Renew(until); return nil }

func (p *chainPlane) Object(key wire.Key) (chain.Object, bool, error) {
	if o := p.node.Objects()[key]; o != nil {
		return *o, true, nil
	}
	return chain.Object{}, false, nil
}

func (p *chainPlane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	for k, s := range p.node.Sessions() {
		if !visit(k, s) {
			break
		}
	}
	return nil
}

func (p *chainPlane) DropSession(k chain.SessionKey, seq uint64) error {
	p.node.DropSession(k, seq)
	return nil
}

func (p *chainPlane) Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error {
	for _, o := range objects {
		if !p.node.MergeObject(o.Key, o.Object) {
			return dataplane.ErrFull
		}
	}
	for _, s := range sessions {
		if !p.node.MergeSession(s.Key, s.Session) {
			return dataplane.ErrFull
		}
	}
	return nil
}

func (p *chainPlane) Drop(shards []uint16) error {
	for _, shard := range shards {
		if p.node.Config(shard).State != chain.None {
			return dataplane.ServedError(shard)
		}
	}
	for key := range p.node.Objects() {
		if slices.Contains(shards, key.Shard(p.options.Shards)) {
			p.node.DropObject(key)
		}
	}
	for k, s := range p.node.Sessions() {
		if slices.Contains(shards, k.Shard) {
			p.node.DropSession(k, s.Seq)
		}
	}
	return nil
}

func (p *chainPlane) Doubt(shards []uint16, gone func(chain.SessionKey, chain.Session)) ([]wire.Key, error) {
	for _, shard := range shards {
		if p.node.Config(shard).State != chain.None {
			return nil, dataplane.ServedError(shard)
		}
	}
	for key, o := range p.node.Objects() {
		if slices.Contains(shards, key.Shard(p.options.Shards)) && !o.Clean() {
			p.node.PutObject(key, chain.Object{})
		}
	}
	for k, s := range p.node.Sessions() {
		if slices.Contains(shards, k.Shard) {
			if gone != nil {
				gone(k, s)
			}
			p.node.DropSession(k, s.Seq)
		}
	}
	return p.Doubtful(shards)
}

func (p *chainPlane) Doubtful(shards []uint16) ([]wire.Key, error) {
	return p.node.Doubtful(func(shard uint16) bool { return slices.Contains(shards, shard) }), nil
}

func (p *chainPlane) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	var dirty []dataplane.KeyedObject
	for key, o := range p.node.Objects() {
		if c := p.node.Config(key.Shard(p.options.Shards)); len(dirty) < limit && !c.Settled(o) {
			dirty = append(dirty, dataplane.KeyedObject{Key: key, Object: *o})
		}
	}
	return dirty, nil
}

func (p *chainPlane) Collect() (map[uint16]dataplane.Tombstones, error) {
	left := make(map[uint16]dataplane.Tombstones)
	for key, o := range p.node.Objects() {
		shard := key.Shard(p.options.Shards)
		switch c := p.node.Config(shard); {
		case c.Collectable(o, p.options.Without):
			p.node.DropObject(key)
		case c.State == chain.Active && !c.Learner && o.Tombstone && c.Settled(o):
			t := left[shard]
			t.Add(o.Version)
			left[shard] = t
		}
	}
	return left, nil
}

func (p *chainPlane) Close() error { return nil }

// xdpPlane is the bytecode.
type xdpPlane struct {
	*harness.XDP
	self netip.AddrPort
	out  []harness.Datagram
}

func (p *xdpPlane) reset() error { return p.Clear() }

func (p *xdpPlane) receive(now uint64, in packet, out []packet) ([]packet, error) {
	if err := p.SetClock(now); err != nil {
		return out, err
	}
	var err error
	p.out, err = p.Receive(in.from, in.bytes, p.out[:0])
	for _, sent := range p.out {
		out = append(out, packet{p.self, sent.To, sent.Message})
	}
	return out, err
}

// Planes keeps data planes for one run after the other: bytecode takes long to load.
type Planes struct {
	planes map[planeKey]plane
}

type planeKey struct {
	kind    Plane
	self    netip.AddrPort
	options chain.Options
}

// NewPlanes makes room for planes.
func NewPlanes() *Planes { return &Planes{make(map[planeKey]plane)} }

// take returns the plane of a node, which has to be reset.
func (p *Planes) take(kind Plane, self netip.AddrPort, o chain.Options) (plane, error) {
	key := planeKey{kind, self, o}
	if p.planes[key] == nil {
		made, err := openPlane(kind, self, o)
		if err != nil {
			return nil, err
		}
		p.planes[key] = made
	}
	return p.planes[key], nil
}

func openPlane(kind Plane, self netip.AddrPort, o chain.Options) (plane, error) {
	switch kind {
	case Chain:
		return &chainPlane{self: self, options: o}, nil
	case XDP:
		m, err := harness.NewXDPAt(self)
		if err == nil {
			if err = m.Reset(o); err == nil {
				return &xdpPlane{XDP: m, self: self}, nil
			}
			err = errors.Join(err, m.Close())
		}
		return nil, err
	}
	return nil, fmt.Errorf("there is no plane %q: want %s or %s", kind, Chain, XDP)
}

// Close frees all planes.
func (p *Planes) Close() error {
	var failed []error
	for key, one := range p.planes {
		failed = append(failed, one.Close())
		delete(p.planes, key)
	}
	return errors.Join(failed...)
}
