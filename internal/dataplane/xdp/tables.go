package xdp

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const (
	outcomeBits = 5 // of an index of nq_counters; the op stands above
	readTries   = 1000
	wireKeySize = 16
)

// Counters implements [dataplane.Plane].
func (p *Plane) Counters() (chain.Counters, error) { return p.objects.counters() }

func (o *objects) counters() (chain.Counters, error) {
	out := make(chain.Counters)
	entries := int(o.Counters.MaxEntries())
	keys, values := make([]uint32, entries), []uint64(nil)
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	values = make([]uint64, entries*cpus)
	var cursor ebpf.MapBatchCursor
	n, err := o.Counters.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("reading counters: %w", err)
	}
	for i, key := range keys[:n] {
		sum := uint64(0)
		for _, v := range values[i*cpus : (i+1)*cpus] {
			sum += v
		}
		if sum != 0 {
			out[chain.Counter{Op: wire.Op(key >> outcomeBits), Outcome: wire.Outcome(key & (1<<outcomeBits - 1))}] = sum
		}
	}
	return out, nil
}

// Object implements [dataplane.Plane].
func (p *Plane) Object(key wire.Key) (chain.Object, bool, error) { return p.objects.object(key) }

// wholeCopies is how many copies in a row with the same even sequence number prove that the one in the middle is whole: no
// packet wrote between the first copy and the last. Two prove nothing, for the kernel may copy the end of an entry
// before its sequence number.
const wholeCopies = 3

// object copies an object.
func (o *objects) object(key wire.Key) (chain.Object, bool, error) {
	last, same := uint32(1), 0
	var previous chain.Object
	for range readTries {
		entry, err := o.Objects.LookupBytes(keyBytes(key))
		if err != nil {
			return chain.Object{}, false, fmt.Errorf("object %v: %w", key, err)
		}
		if entry == nil {
			return chain.Object{}, false, nil
		}
		h, object, err := decodeObject(entry)
		if err != nil {
			return chain.Object{}, false, err
		}
		if h.Seq&1 == 1 || h.Seq != last {
			same = 0
		}
		if same++; same == wholeCopies {
			return previous, true, nil
		}
		last, previous = h.Seq, object
	}
	return chain.Object{}, false, fmt.Errorf("object %v is written faster than it can be read", key)
}

// scan walks over all objects in the kernel and returns their number and the keys of those that are not clean.
func (p *Plane) scan(limit int) (total int, dirty []wire.Key, err error) {
	p.scanning.Lock()
	defer p.scanning.Unlock()
	counter := p.scanner.Variables["nq_total"]
	if err := counter.Set(uint64(0)); err != nil {
		return 0, nil, err
	}
	iter, err := link.AttachIter(link.IterOptions{Program: p.scanner.Programs["nq_scan"], Map: p.objects.Objects})
	if err != nil {
		return 0, nil, fmt.Errorf("walking over the objects: %w", err)
	}
	defer iter.Close()
	reader, err := iter.Open()
	if err != nil {
		return 0, nil, fmt.Errorf("walking over the objects: %w", err)
	}
	defer reader.Close()
	keys, err := io.ReadAll(reader)
	if err != nil {
		return 0, nil, fmt.Errorf("walking over the objects: %w", err)
	}
	for ; len(keys) >= wireKeySize && len(dirty) < limit; keys = keys[wireKeySize:] {
		dirty = append(dirty, keyOf(keys))
	}
	var n uint64
	if err := counter.Get(&n); err != nil {
		return 0, nil, err
	}
	return int(n), dirty, nil
}

// Dirty implements [dataplane.Plane].
func (p *Plane) Dirty(limit int) ([]dataplane.KeyedObject, error) {
	_, keys, err := p.scan(limit)
	if err != nil {
		return nil, err
	}
	var out []dataplane.KeyedObject
	for _, k := range keys {
		o, found, err := p.Object(k)
		if err != nil {
			return nil, err
		}
		if found && !o.Clean() {
			out = append(out, dataplane.KeyedObject{Key: k, Object: o})
		}
	}
	return out, nil
}

// Sessions implements [dataplane.Plane].
func (p *Plane) Sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	return p.objects.sessions(visit)
}

func (o *objects) sessions(visit func(chain.SessionKey, chain.Session) bool) error {
	var k nqLaneKey
	var lane nqLane
	entries := o.Lanes.Iterate()
	for entries.Next(&k, &lane) {
		whole, found, err := o.lane(k, lane)
		if err != nil {
			return err
		}
		if found && !visit(k.sessionKey(), whole.session()) {
			return nil
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("reading sessions: %w", err)
	}
	return nil
}

// lane makes sure that a copy of a lane is whole, as object does; it is copied again until it is.
func (o *objects) lane(k nqLaneKey, previous nqLane) (nqLane, bool, error) {
	same := 1
	for range readTries {
		var next nqLane
		err := o.Lanes.Lookup(k, &next)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return next, false, nil
		}
		if err != nil {
			return next, false, fmt.Errorf("reading sessions: %w", err)
		}
		if next.Lock&1 == 1 || next.Lock != previous.Lock {
			same = 0
		}
		if same++; same == wholeCopies {
			return previous, true, nil
		}
		previous = next
	}
	return previous, false, nil // written all the time: surely in use
}

// DropSession implements [dataplane.Plane].
func (p *Plane) DropSession(k chain.SessionKey, seq uint64) error {
	request := nqDropRequest{Key: laneKeyOf(k), Seq: seq}
	data := make([]byte, 0, 64)
	data, err := appendNative(data, request)
	if err != nil {
		return err
	}
	if _, err := p.objects.DropLane.Run(&ebpf.RunOptions{Data: data}); err != nil {
		return fmt.Errorf("dropping a session: %w", err)
	}
	return nil
}

// Usage implements [dataplane.Plane].
func (p *Plane) Usage() (dataplane.Usage, error) {
	var u dataplane.Usage
	var err error
	if u.Objects, _, err = p.scan(0); err != nil {
		return u, err
	}
	if err := p.Sessions(func(chain.SessionKey, chain.Session) bool { u.Sessions++; return true }); err != nil {
		return u, err
	}
	for _, m := range []*ebpf.Map{p.objects.Objects, p.objects.Lanes, p.objects.Chains, p.objects.Live, p.objects.Counters} {
		info, err := m.Info()
		if err != nil {
			return u, err
		}
		if bytes, ok := info.Memlock(); ok {
			u.MemoryBytes += bytes
		}
	}
	return u, nil
}
