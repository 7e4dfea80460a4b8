package xdp

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
)

// shardTable is the memory of nq_live and nq_chains, shared with the program. Fields that a program reads while they
// change are aligned words, so that it sees each of them as it was or as it is.
type shardTable struct {
	rows   []nqLive        // all of nq_live
	live   []nqLive        // one a shard
	latest *uint64         // the latest end that renew ever set: in the row behind the shards
	chains []nqChainConfig // two a shard: the one in force, and the one to come, which no program reads

	mu      sync.Mutex // held to write live, and to read the configurations in force from chains
	renewed uint64     // the last argument of renew
}

func mapShards(o *objects, shards int) (*shardTable, error) {
	rows, err := mapArray[nqLive](o.Live, liveRows(shards))
	if err != nil {
		return nil, fmt.Errorf("mapping the lease table: %w", err)
	}
	chains, err := mapArray[nqChainConfig](o.Chains, 2*shards)
	if err != nil {
		_ = unmapArray(rows)
		return nil, fmt.Errorf("mapping the table of chains: %w", err)
	}
	return &shardTable{rows: rows, live: rows[:shards], latest: &rows[shards].LeaseUntilNS, chains: chains}, nil
}

// liveRows is the length of nq_live: a row for each shard, and one for the latest end of a lease.
func liveRows(shards int) int { return shards + 1 }

func (t *shardTable) close() error {
	err := unmapArray(t.rows)
	if chainsErr := unmapArray(t.chains); err == nil {
		err = chainsErr
	}
	return err
}

// mapArray maps the memory of an array of n elements.
func mapArray[T any](m *ebpf.Map, n int) ([]T, error) {
	memory, err := unix.Mmap(m.FD(), 0, arrayBytes[T](n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&memory[0])), n), nil
}

func unmapArray[T any](array []T) error {
	return unix.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&array[0])), arrayBytes[T](len(array))))
}

func arrayBytes[T any](n int) int {
	var element T
	page := os.Getpagesize()
	return (n*int(unsafe.Sizeof(element)) + page - 1) / page * page
}

func (t *shardTable) check(shard uint16) error {
	if int(shard) >= len(t.live) {
		return fmt.Errorf("shard %d: there are %d", shard, len(t.live))
	}
	return nil
}

// config returns the configuration in force.
func (t *shardTable) config(shard uint16) chain.ShardConfig {
	t.mu.Lock() // else it might cease to be in force, and be written over
	defer t.mu.Unlock()
	return t.inForce(shard).shardConfig()
}

func (t *shardTable) inForce(shard uint16) *nqChainConfig {
	return &t.chains[2*int(shard)+int(t.live[shard].Slot)]
}

// serves reports whether the node is in the chain of any of the shards.
func (t *shardTable) serves(shards map[uint16]chain.ShardConfig) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard := range shards {
		if chain.State(t.inForce(shard).State) != chain.None {
			return true
		}
	}
	return false
}

// commits reports whether this node is a shard's active tail: all versions it holds are committed.
func (t *shardTable) commits(shard uint16) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[shard].Tail != 0 && chain.State(t.inForce(shard).State) == chain.Active
}

// prepare writes configurations where no program reads them yet.
func (t *shardTable) prepare(configs map[uint16]chain.ShardConfig) {
	for shard, c := range configs {
		t.chains[2*int(shard)+int(1-t.live[shard].Slot)] = chainConfigOf(c)
	}
}

// commit puts the prepared configurations in force, with the leases that follow from it. It is short: renew waits for
// it.
func (t *shardTable) commit(configs map[uint16]chain.ShardConfig) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard, c := range configs {
		live := &t.live[shard]
		was, is := live.Readable != 0, c.Readable()
		atomic.StoreUint64(live.state(), liveState(c, 1-live.Slot))
		switch {
		case was && !is:
			live.LeaseUntilNS = 0
		case is && !was && t.renewed != 0:
			live.LeaseUntilNS = t.renewed
		}
	}
}

// state is the word that one store puts in force.
func (l *nqLive) state() *uint64 { return (*uint64)(unsafe.Pointer(&l.Epoch)) }

// renew sets the end of the lease of every shard that is readable. The program learns it first: a stop of the clock voids
// the leases up to it (H4).
func (t *shardTable) renew(until uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = until
	atomic.StoreUint64(t.latest, max(*t.latest, until))
	for i := range t.live {
		if live := &t.live[i]; live.Readable != 0 {
			live.LeaseUntilNS = until
		}
	}
}

func (t *shardTable) grant(shard uint16, until uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live[shard].LeaseUntilNS = until
}

// clear takes every configuration and lease away.
func (t *shardTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = 0
	clear(t.rows)
	clear(t.chains)
}
