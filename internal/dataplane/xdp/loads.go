package xdp

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const outcomeBits = 6 // of an index of nq_counters; the op stands above

// Indexes of nq_usage.
const (
	tableObjects = iota
	tableLanes
	countedTables
)

// perCPU reads a whole per-CPU array and adds up its elements.
func perCPU[T any](m *ebpf.Map, add func(index int, value T)) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	entries := int(m.MaxEntries())
	keys, values := make([]uint32, entries), make([]T, entries*cpus)
	var cursor ebpf.MapBatchCursor
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("reading counters: %w", err)
	}
	for i, key := range keys[:n] {
		for _, v := range values[i*cpus : (i+1)*cpus] {
			add(int(key), v)
		}
	}
	return nil
}

// Counters implements [dataplane.Plane].
func (t *tables) Counters() (chain.Counters, error) { return t.objects.counters() }

func (o *objects) counters() (chain.Counters, error) {
	out := make(chain.Counters)
	err := perCPU(o.Counters, func(index int, n uint64) {
		if n != 0 {
			out[chain.Counter{Op: wire.Op(index >> outcomeBits), Outcome: wire.Outcome(index & (1<<outcomeBits - 1))}] += n
		}
	})
	if err != nil {
		return nil, err
	}
	plain := uint64(0)
	if err := perCPU(o.Loads, func(_ int, l nqLoad) { plain += l.PlainReads }); err != nil {
		return nil, err
	}
	if plain != 0 {
		out[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredClean}] += plain
	}
	return out, nil
}

// Loads implements [dataplane.Plane].
func (t *tables) Loads() ([]dataplane.ShardLoad, error) { return t.objects.loads() }

func (o *objects) loads() ([]dataplane.ShardLoad, error) {
	loads := make([]dataplane.ShardLoad, o.Loads.MaxEntries())
	err := perCPU(o.Loads, func(shard int, l nqLoad) {
		loads[shard].Reads += l.PlainReads + l.OtherReads
		loads[shard].Writes += l.Writes
	})
	return loads, err
}

// Usage implements [dataplane.Plane].
func (t *tables) Usage() (dataplane.Usage, error) {
	u := dataplane.Usage{
		Objects:  int(atomic.LoadUint64(&t.usage[tableObjects])),
		Sessions: int(atomic.LoadUint64(&t.usage[tableLanes])),
	}
	for _, m := range []*ebpf.Map{
		t.objects.Objects, t.objects.Lanes, t.objects.Chains, t.objects.Live, t.objects.Counters, t.objects.Loads,
	} {
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
