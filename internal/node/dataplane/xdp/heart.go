package xdp

import (
	"encoding/binary"
	"fmt"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// nqHeart mirrors struct nq_heart; the words of the key are numbers of the CPU's.
type nqHeart struct {
	Key         [2]uint64
	Incarnation [8]byte
	Node        [4]byte
	Generation  [4]byte
	Valid       uint64
	Until       uint64
	Ends        [wire.MaxGranters]uint64
}

// SetHeart implements [dataplane.Plane].
func (p *Plane) SetHeart(h chain.Heart) error { return p.objects.setHeart(h) }

// Granted implements [dataplane.Plane].
func (p *Plane) Granted() (chain.Granted, error) { return p.objects.granted() }

func (o *objects) granted() (chain.Granted, error) {
	h, err := o.heart()
	return chain.Granted{Until: h.Until, Ends: h.Ends}, err
}

func (o *objects) heart() (h nqHeart, err error) {
	if err := o.Heart.Lookup(uint32(0), &h); err != nil {
		return h, fmt.Errorf("heartbeats: %w", err)
	}
	return h, nil
}

// setHeart keeps the lease, which a majority gave. A grant that is taken while this is written may be lost, and the
// next one is not.
func (o *objects) setHeart(h chain.Heart) error {
	before, err := o.heart()
	if err != nil {
		return err
	}
	next := nqHeart{
		Key:   [2]uint64{binary.LittleEndian.Uint64(h.Key[:8]), binary.LittleEndian.Uint64(h.Key[8:])},
		Valid: 1, Until: before.Until,
	}
	binary.BigEndian.PutUint64(next.Incarnation[:], h.Incarnation)
	binary.BigEndian.PutUint32(next.Node[:], h.Node)
	binary.BigEndian.PutUint32(next.Generation[:], h.Generation)
	if err := o.Heart.Put(uint32(0), next); err != nil {
		return fmt.Errorf("heartbeats: %w", err)
	}
	return nil
}
