package xdp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0": {0}, "0-3": {0, 1, 2, 3}, "0,2-3,7": {0, 2, 3, 7}} {
		if got, err := parseCPUs(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", list, got, err)
		}
	}
	for _, bad := range []string{"", "a", "1-", "1-b"} {
		if got, err := parseCPUs(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestVisitorIsNotOvertaken: a thread that waits for packets comes before ordinary ones, and is never put behind the
// rest of a process that is more urgent.
func TestVisitorIsNotOvertaken(t *testing.T) {
	ordinary := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}
	urgent := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 2}
	for _, c := range []struct {
		before       unix.SchedAttr
		policy, prio uint32
	}{{ordinary, unix.SCHED_FIFO, 1}, {urgent, unix.SCHED_RR, 2}} {
		failed := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if err := unix.SchedSetAttr(0, &urgent, 0); err != nil {
				failed <- nil // this user may not have what is tested
				return
			}
			err := unix.SchedSetAttr(0, &c.before, 0)
			if err == nil {
				err = visit([]int{0})
			}
			after, attrErr := unix.SchedGetAttr(0, 0)
			if attrErr == nil && (after.Policy != c.policy || after.Priority != c.prio) {
				attrErr = fmt.Errorf("policy %d with priority %d, want %d with %d", after.Policy, after.Priority, c.policy, c.prio)
			}
			failed <- errors.Join(err, attrErr)
		}()
		if err := <-failed; err != nil && !errors.Is(err, errNoVisit) {
			t.Error(err)
		}
	}
}

// BenchmarkQuiesce measures both ways to wait for packets under way.
func BenchmarkQuiesce(b *testing.B) {
	onPlane(b, testOptions(b), func(p *Plane) error {
		for name, wait := range map[string]func() error{"visit": visitCPUs, "grace": p.waitForGrace} {
			b.Run(name, func(b *testing.B) {
				for range b.N {
					if err := wait(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		return nil
	})
}

// BenchmarkConfigureAll freezes and thaws all shards of a node, with the quiesce; BenchmarkRenew renews all leases.
func BenchmarkConfigureAll(b *testing.B) {
	for _, shards := range []int{1, 256, wire.MaxShards} {
		onShards(b, shards, func(b *testing.B, p *Plane, configs map[uint16]chain.ShardConfig) {
			for i := range b.N {
				for shard, c := range configs {
					c.State = []chain.State{chain.Frozen, chain.Active}[i%2]
					configs[shard] = c
				}
				if err := p.ConfigureAll(configs); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRenew(b *testing.B) {
	for _, shards := range []int{1, 256, wire.MaxShards} {
		onShards(b, shards, func(b *testing.B, p *Plane, _ map[uint16]chain.ShardConfig) {
			for i := range b.N {
				if err := p.Renew(uint64(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func onShards(b *testing.B, shards int, f func(*testing.B, *Plane, map[uint16]chain.ShardConfig)) {
	o := testOptions(b)
	o.Chain.Shards, o.Pin = shards, ""
	onPlane(b, o, func(p *Plane) error {
		configs := make(map[uint16]chain.ShardConfig, shards)
		for shard := range shards {
			configs[uint16(shard)] = chain.ShardConfig{
				Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me, at(3), at(4)},
			}
		}
		if err := p.ConfigureAll(configs); err != nil {
			return err
		}
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) { f(b, p, configs) })
		return nil
	})
}

func onPlane(t testing.TB, o Options, f func(*Plane) error) {
	inNamespace(t, func() error {
		p, err := Open(o)
		if err != nil {
			return err
		}
		return errors.Join(f(p), p.Close())
	})
}
