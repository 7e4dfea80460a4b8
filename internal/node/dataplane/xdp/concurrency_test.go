package xdp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf/rlimit"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/platform/roottest"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// lone is a node alone in its chain, whose program several threads, and so several CPUs, run at the same time.
type lone struct {
	objects *objects
	shards  *shardTable
}

func newLone(t *testing.T, o chain.Options) *lone {
	t.Helper()
	roottest.Need(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	c := constantsOf(conformance.Me, o)
	c["nq_secret"] = secret{} // all keys have the same place
	objects, err := load(o, c, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.close)
	shards, err := mapShards(objects, o.Shards)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shards.close() })
	configs := map[uint16]chain.ShardConfig{0: {Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me}}}
	shards.prepare(configs)
	shards.commit(configs)
	shards.grant(0, chain.Forever)
	return &lone{objects, shards}
}

// write repeats a write until it is answered with anything but BUSY.
func (l *lone) write(m *wire.Message) (wire.Message, error) {
	for {
		reply, answered, err := l.objects.ask(m)
		if err != nil || (answered && reply.Status() != wire.StatusBusy) {
			return reply, err
		}
	}
}

// inParallel runs f on several threads and reports the first error.
func inParallel(t *testing.T, threads int, f func(thread int) error) {
	t.Helper()
	var group sync.WaitGroup
	errs := make(chan error, threads)
	for thread := range threads {
		group.Go(func() { errs <- f(thread) })
	}
	group.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoLostUpdate adds to one counter from several CPUs at once: every addition counts once, and every result is given
// once.
func TestNoLostUpdate(t *testing.T) {
	const threads, additions = 4, 20000
	l := newLone(t, chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 4, MaxSessions: threads})
	results := make([]atomic.Uint32, threads*additions+1)
	inParallel(t, threads, func(thread int) error {
		for seq := uint64(1); seq <= additions; seq++ {
			reply, err := l.write(&wire.Message{
				Op: wire.OpAdd, Epoch: 1, Key: wire.Key{Hi: 1}, Session: uint64(thread + 1), Seq: seq, Operand: 1,
			})
			if err != nil || reply.Status() != wire.StatusOk {
				return fmt.Errorf("thread %d, seq %d: %v, %w", thread, seq, reply.Status(), err)
			}
			results[binary.BigEndian.Uint64(reply.Value)].Add(1)
		}
		return nil
	})
	for n := 1; n < len(results); n++ {
		if got := results[n].Load(); got != 1 {
			t.Fatalf("result %d was given %d times", n, got)
		}
	}
}

// TestNoTornRead reads a long value on some CPUs while others overwrite it: a value read is one that was written,
// whole.
func TestNoTornRead(t *testing.T) {
	const writers, readers, rounds = 2, 2, 20000
	l := newLone(t, chain.Options{Shards: 1, CellBytes: wire.MaxValueBytes, MaxObjects: 4, MaxSessions: writers})
	key := wire.Key{Hi: 1}
	inParallel(t, writers+readers, func(thread int) error {
		for i := uint64(1); i <= rounds; i++ {
			if thread < writers {
				length := 1 + int(i*7+uint64(thread))%wire.MaxValueBytes
				value := bytes.Repeat([]byte{byte(i), byte(length)}, length)[:length]
				_, err := l.write(&wire.Message{
					Op: wire.OpPut, Epoch: 1, Key: key, Session: uint64(thread + 1), Seq: i, Value: value,
				})
				if err != nil {
					return err
				}
				continue
			}
			reply, answered, err := l.objects.ask(&wire.Message{Op: wire.OpRead, Epoch: 1, Key: key, Request: i})
			if err != nil {
				return err // a torn value also has the wrong checksum
			}
			if !answered || reply.Status() != wire.StatusOk {
				continue
			}
			if len(reply.Value) > 1 && reply.Value[1] != byte(len(reply.Value)) {
				return fmt.Errorf("%d bytes of a value of another length", len(reply.Value))
			}
			for n, b := range reply.Value {
				if b != reply.Value[n%2] {
					return fmt.Errorf("torn value: byte %d of %d", n, len(reply.Value))
				}
			}
		}
		return nil
	})
}

// TestObjectIsWhole copies an object for the agent while packets overwrite it.
func TestObjectIsWhole(t *testing.T) {
	const copies = 100_000
	l := newLone(t, chain.Options{Shards: 1, CellBytes: wire.MaxValueBytes, MaxObjects: 4, MaxSessions: 1})
	key := wire.Key{Hi: 1}
	var stop atomic.Bool
	inParallel(t, 2, func(thread int) error {
		if thread == 0 {
			for seq := uint64(1); !stop.Load(); seq++ {
				value := bytes.Repeat([]byte{byte(seq)}, wire.MaxValueBytes)
				put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: seq, Value: value}
				if _, err := l.write(&put); err != nil {
					return err
				}
			}
			return nil
		}
		defer stop.Store(true)
		for range copies {
			o, _, err := l.objects.object(key, recordBytes(chain.Options{CellBytes: wire.MaxValueBytes}))
			if err != nil {
				return err
			}
			for _, b := range o.Value {
				if b != byte(o.Version) {
					return fmt.Errorf("version %d holds a byte of version %d", byte(o.Version), b)
				}
			}
		}
		return nil
	})
}
