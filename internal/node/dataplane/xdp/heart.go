package xdp

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"

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
	Since, Void uint64
	Clocks      [wire.MaxGranters]nqClock
}

// nqClock mirrors struct nq_clock.
type nqClock struct{ Process, Ahead, At uint64 }

// SetHeart implements [dataplane.Plane].
func (p *Plane) SetHeart(h chain.Heart) error { return p.objects.setHeart(h, p.waitForPackets) }

// Granted implements [dataplane.Plane].
func (p *Plane) Granted() (chain.Granted, error) { return p.objects.granted() }

func (o *objects) granted() (chain.Granted, error) {
	h, err := o.heart()
	return chain.Granted{Until: h.Until, Ends: h.Ends, Since: h.Since, Void: h.Void}, err
}

func (o *objects) heart() (h nqHeart, err error) {
	if err := o.Heart.Lookup(uint32(0), &h); err != nil {
		return h, fmt.Errorf("heartbeats: %w", err)
	}
	return h, nil
}

// nqHeartRequest mirrors struct nq_heart_request.
type nqHeartRequest struct {
	Key         [2]uint64
	Incarnation [8]byte
	Node        [4]byte
	Generation  [4]byte
	Valid       uint64
}

// setHeart keeps the lease, which a majority gave. Between its two steps heartbeats are not taken; outlast waits until no
// program runs that took one before.
func (o *objects) setHeart(h chain.Heart, outlast func() error) error {
	next := nqHeartRequest{
		Key:   [2]uint64{binary.LittleEndian.Uint64(h.Key[:8]), binary.LittleEndian.Uint64(h.Key[8:])},
		Valid: 1,
	}
	binary.BigEndian.PutUint64(next.Incarnation[:], h.Incarnation)
	binary.BigEndian.PutUint32(next.Node[:], h.Node)
	binary.BigEndian.PutUint32(next.Generation[:], h.SetID)
	for _, step := range []func() error{
		func() error { return o.runSetHeart(&nqHeartRequest{}) }, outlast, func() error { return o.runSetHeart(&next) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("heartbeats: %w", err)
		}
	}
	return nil
}

func (o *objects) runSetHeart(r *nqHeartRequest) error {
	data, err := appendNative(nil, r)
	if err != nil {
		return err
	}
	_, err = o.SetHeart.Run(&ebpf.RunOptions{Data: data})
	return err
}
