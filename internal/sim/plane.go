package sim

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// plane is a node's data plane on a simulated network and clock.
type plane interface {
	// reset makes it new: without state, at an address.
	reset(self netip.AddrPort, o chain.Options) error
	// receive takes a datagram at a time of the node's clock, and appends what the node sends.
	receive(now uint64, p packet, out []packet) ([]packet, error)

	// As in dataplane.Plane.
	ConfigureAll(configs map[uint16]chain.ShardConfig) error
	Config(shard uint16) (chain.ShardConfig, error)
	Renew(until uint64) error
	Object(key wire.Key) (chain.Object, bool, error)
	Sessions(visit func(chain.SessionKey, chain.Session) bool) error
	Import(objects []dataplane.KeyedObject, sessions []dataplane.KeyedSession) error
	Drop(shards []uint16) error

	Close() error
}

// chainPlane is internal/chain itself.
type chainPlane struct {
	self   netip.AddrPort
	node   *chain.Node
	shards int
	out    []chain.Send
}

func (p *chainPlane) reset(self netip.AddrPort, o chain.Options) error {
	p.self, p.node, p.shards = self, chain.New(o), o.Shards
	return nil
}

func (p *chainPlane) receive(now uint64, in packet, out []packet) ([]packet, error) {
	p.out = p.node.Receive(now, in.from, in.bytes, p.out[:0])
	for i := range p.out {
		s := &p.out[i]
		out = append(out, packet{p.self, s.To, s.Message.Append(nil)})
	}
	return out, nil
}

func (p *chainPlane) ConfigureAll(configs map[uint16]chain.ShardConfig) error {
	return p.node.ConfigureAll(configs)
}

func (p *chainPlane) Config(shard uint16) (chain.ShardConfig, error) {
	return p.node.Config(shard), nil
}

func (p *chainPlane) Renew(until uint64) error { p.node.Renew(until); return nil }

func (p *chainPlane) Object(key wire.Key) (chain.Object, bool, error) {
	if o := p.node.Objects()[key]; o != nil {
		return *o, true, nil
	}
	return chain.Object{}, false, nil
}

// Sessions visits them in an order that is the same in each run.
func (p *chainPlane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	sessions := p.node.Sessions()
	keys := make([]chain.SessionKey, 0, len(sessions))
	for k := range sessions {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareSessions)
	for _, k := range keys {
		if !visit(k, sessions[k]) {
			break
		}
	}
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
		if slices.Contains(shards, key.Shard(p.shards)) {
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

func (p *chainPlane) Close() error { return nil }

func compareSessions(a, b chain.SessionKey) int {
	return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Shard, b.Shard))
}

// Planes keeps data planes for one run after the other: bytecode takes long to load.
type Planes struct {
	planes []plane
	kind   Plane
}

// NewPlanes makes room for planes.
func NewPlanes() *Planes { return new(Planes) }

// take returns the plane of a node. It has to be reset.
func (p *Planes) take(kind Plane, number int) (plane, error) {
	if kind != p.kind {
		if err := p.Close(); err != nil {
			return nil, err
		}
		p.kind = kind
	}
	for len(p.planes) <= number {
		next, err := open(kind)
		if err != nil {
			return nil, err
		}
		p.planes = append(p.planes, next)
	}
	return p.planes[number], nil
}

func open(kind Plane) (plane, error) {
	switch kind {
	case Chain:
		return new(chainPlane), nil
	}
	return nil, fmt.Errorf("there is no plane %q: want %s or %s", kind, Chain, XDP)
}

// Close frees all planes.
func (p *Planes) Close() error {
	var failed []error
	for _, one := range p.planes {
		failed = append(failed, one.Close())
	}
	p.planes = nil
	return errors.Join(failed...)
}
