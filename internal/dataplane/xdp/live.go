package xdp

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/chain"
	"github.com/netcraq/netcraq/internal/dataplane"
)

// liveTable is the memory of the nq_live map, shared with the program.
type liveTable struct {
	memory []byte
	shards int

	mu      sync.Mutex // serialises its writers; a program that reads sees each word whole
	renewed uint64     // what renew was called with last
}

const liveBytes = int(unsafe.Sizeof(nqLive{}))

func mapLive(m *ebpf.Map, shards int) (*liveTable, error) {
	page := os.Getpagesize()
	length := (shards*liveBytes + page - 1) / page * page
	memory, err := unix.Mmap(m.FD(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the lease table: %w", err)
	}
	return &liveTable{memory: memory, shards: shards}, nil
}

func (t *liveTable) close() error { return unix.Munmap(t.memory) }

// entry returns the two words of a shard: its lease's end and its state.
func (t *liveTable) entry(shard uint16) *[2]atomic.Uint64 {
	return (*[2]atomic.Uint64)(unsafe.Pointer(&t.memory[int(shard)*liveBytes]))
}

func (t *liveTable) check(shard uint16) error {
	if int(shard) >= t.shards {
		return fmt.Errorf("shard %d: there are %d", shard, t.shards)
	}
	return nil
}

// slot returns which of the shard's two configurations is in force.
func (t *liveTable) slot(shard uint16) uint8 {
	word := t.entry(shard)[1].Load()
	return (*[8]byte)(unsafe.Pointer(&word))[4]
}

// readable returns whether the shard may be read here while its lease lasts.
func (t *liveTable) readable(shard uint16) bool {
	word := t.entry(shard)[1].Load()
	return (*[8]byte)(unsafe.Pointer(&word))[5] != 0
}

// switchTo puts configurations in force, each from the slot of its shard that is not in force, with the lease that
// follows from them. So short that renew can wait for it.
func (t *liveTable) switchTo(configs map[uint16]chain.ShardConfig) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for shard, c := range configs {
		entry, was, is := t.entry(shard), t.readable(shard), c.Readable()
		entry[1].Store(liveState(c, 1-t.slot(shard)))
		switch {
		case was && !is:
			entry[0].Store(0)
		case is && !was && t.renewed != 0:
			entry[0].Store(t.renewed)
		}
	}
}

// renew sets the end of the lease of every shard that is readable.
func (t *liveTable) renew(until uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = until
	for shard := range t.shards {
		if t.readable(uint16(shard)) {
			t.entry(uint16(shard))[0].Store(until)
		}
	}
}

// clear takes every configuration and lease away.
func (t *liveTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed = 0
	clear(t.memory)
}

func (t *liveTable) grant(shard uint16, d time.Duration) {
	until := uint64(0)
	switch {
	case d == dataplane.Forever:
		until = chain.Forever
	case d != 0:
		until = uint64(int64(dataplane.BootTime()) + int64(d))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entry(shard)[0].Store(until)
}
