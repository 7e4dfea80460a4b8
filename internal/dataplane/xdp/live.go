package xdp

import (
	"fmt"
	"os"
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

func (t *liveTable) setState(shard uint16, c chain.ShardConfig, slot uint8) {
	t.entry(shard)[1].Store(liveState(c, slot))
}

func (t *liveTable) grant(shard uint16, d time.Duration) error {
	until := uint64(0)
	switch {
	case d == dataplane.Forever:
		until = chain.Forever
	case d != 0:
		now, err := bootTime()
		if err != nil {
			return err
		}
		until = uint64(int64(now) + int64(d))
	}
	t.entry(shard)[0].Store(until)
	return nil
}

// bootTime is the clock of bpf_ktime_get_boot_ns: it goes on while the machine sleeps, so that a lease ends then too.
func bootTime() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, err
	}
	return uint64(ts.Nano()), nil
}
