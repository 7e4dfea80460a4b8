package xdp

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

const outcomeBits = 6 // of an index of nq_counters; the op stands above

// Indexes of nq_usage.
const (
	tableObjects = iota
	tableSessions
	countedTables
)

// loadStep is the number of shards of which a row of nq_loads has a multiple, and counterRow how long one of
// nq_counters is.
const (
	loadStep   = 8
	counterRow = 256 << outcomeBits
)

func loadRow(shards int) int { return max(shards, loadStep) }

// countTable is the memory of the program's counters: a row for each CPU.
type countTable struct {
	counters []uint64 // nq_counters
	loads    []nqLoad // nq_loads
	row      int      // of loads
	shards   int
}

func mapCounts(o *objects, shards int) (*countTable, error) {
	counters, err := mapArray[uint64](o.Counters, int(o.Counters.MaxEntries()))
	if err != nil {
		return nil, fmt.Errorf("mapping the table of counters: %w", err)
	}
	loads, err := mapArray[nqLoad](o.Loads, int(o.Loads.MaxEntries()))
	if err != nil {
		_ = unmapArray(counters)
		return nil, fmt.Errorf("mapping the table of loads: %w", err)
	}
	return &countTable{counters, loads, loadRow(shards), shards}, nil
}

func (t *countTable) close() error { return errors.Join(unmapArray(t.counters), unmapArray(t.loads)) }

// Counters implements [dataplane.Plane].
func (t *tables) Counters() (chain.Counters, error) { return t.counts.read(), nil }

func (t *countTable) read() chain.Counters {
	out := make(chain.Counters)
	for i, n := range t.counters {
		if n != 0 {
			i %= counterRow
			out[chain.Counter{Op: wire.Op(i >> outcomeBits), Outcome: wire.Outcome(i & (1<<outcomeBits - 1))}] += n
		}
	}
	fast := uint64(0)
	for i := range t.loads {
		fast += t.loads[i].FastReads
	}
	if fast != 0 {
		out[chain.Counter{Op: wire.OpRead, Outcome: wire.OutcomeAnsweredClean}] += fast
	}
	return out
}

// Loads implements [dataplane.Plane].
func (t *tables) Loads() ([]dataplane.ShardLoad, error) {
	c := t.counts
	loads := make([]dataplane.ShardLoad, c.shards)
	for start := 0; start < len(c.loads); start += c.row {
		for shard := range loads {
			l := &c.loads[start+shard]
			loads[shard].Reads += l.FastReads + l.OtherReads
			loads[shard].Writes += l.Writes
		}
	}
	return loads, nil
}

// Usage implements [dataplane.Plane].
func (t *tables) Usage() (dataplane.Usage, error) {
	return dataplane.Usage{
		Objects:  int(atomic.LoadUint64(&t.usage[tableObjects])),
		Sessions: int(atomic.LoadUint64(&t.usage[tableSessions])),
	}, nil
}

// Memory implements [dataplane.Plane].
func (t *tables) Memory() (sum uint64, err error) {
	for _, m := range []*ebpf.Map{
		t.objects.Objects, t.objects.Reaches, t.objects.Sessions, t.objects.Chains, t.objects.Live, t.objects.Counters, t.objects.Loads,
	} {
		info, err := m.Info()
		if err != nil {
			return sum, err
		}
		if bytes, ok := info.Memlock(); ok {
			sum += bytes
		}
	}
	return sum, nil
}
