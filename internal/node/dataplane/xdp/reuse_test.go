package xdp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/frame"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// reuser is the head of two nodes. It has room for one object, which is removed while a packet is paused between lookup
// and use, and the cell is used again for another key before the packet goes on.
type reuser struct {
	tables
	paused  *objects // programs on the same tables, for that packet
	cell    int
	seq     uint64
	packets atomic.Uint64 // odd while the packet is under way
	stored  bool          // another object has been stored in its cell meanwhile
}

// stopped is for how many iterations packets are paused: long enough to delete an object and store another one.
const stopped = 1_000_000

func newReuser(t *testing.T, cell int) *reuser { return newReuserOf(t, cell, 1) }

func newReuserOf(t *testing.T, cell, room int) *reuser {
	o := chain.Options{Shards: 1, CellBytes: cell, MaxObjects: room, MaxSessions: 4, Relay: true}
	r := &reuser{cell: cell, paused: new(objects)}
	r.objects = newLone(t, o).objects
	if err := r.open(o, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.shards.close() })
	c := constantsOf(conformance.Me, o)
	c["nq_secret"] = secret{}
	c["nq_test_pause"] = uint32(stopped)
	spec, err := prepare(o, c)
	if err == nil {
		err = spec.LoadAndAssign(r.paused, &ebpf.CollectionOptions{MapReplacements: r.objects.maps()})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.paused.close)
	return r
}

func (r *reuser) waitForPacket() {
	for seen := r.packets.Load(); seen%2 == 1 && r.packets.Load() == seen; {
		runtime.Gosched()
	}
}

// configure sets floor and bar.
func (r *reuser) configure(bar uint64) error {
	return r.ConfigureAll(map[uint16]chain.ShardConfig{0: {
		Epoch: 1, State: chain.Active, Members: []netip.AddrPort{conformance.Me, at(3)}, Floor: bar, Bar: bar,
	}})
}

// value is the value of a key.
func (r *reuser) value(key uint64) []byte { return bytes.Repeat([]byte{byte(key)}, r.cell) }

// run runs a program on a datagram, and returns the datagram that it leaves in the frame.
func (r *reuser) run(program *ebpf.Program, from netip.AddrPort, datagram []byte) ([]byte, error) {
	p := frame.Packet{From: from, To: conformance.Me, Message: datagram}
	run := ebpf.RunOptions{Data: frame.Append(nil, &p), DataOut: make([]byte, maxFrame)}
	if _, err := program.Run(&run); err != nil {
		return nil, err
	}
	return run.DataOut[frame.HeaderBytes:], nil
}

// store has the node order a write of a key, and acknowledges it.
func (r *reuser) store(op wire.Op, key uint64, value []byte) error {
	for {
		r.seq++
		m := wire.Message{Op: op, Epoch: 1, Key: wire.Key{Hi: key}, Session: 1, Seq: r.seq, Value: value}
		out, err := r.run(r.objects.Ingress, at(9), m.Append(nil))
		if err != nil {
			return err
		}
		var update wire.Message
		switch sent := wire.Peek(out, &update); {
		case sent && update.Op == wire.OpReply && update.Status() == wire.StatusFull:
			return fmt.Errorf("%v of key %d: %w", op, key, dataplane.ErrFull)
		case !sent || update.Op != wire.OpUpdate:
			continue // a packet under way held the lock
		}
		ack := wire.Message{Op: wire.OpAck, Epoch: 1, Key: m.Key, Version: update.Version}
		for {
			if _, err := r.run(r.objects.Ingress, at(3), ack.Append(nil)); err != nil {
				return err
			}
			if o, found, err := r.Object(m.Key); err != nil || !found || o.Clean() {
				return err
			}
		}
	}
}

// replace deletes a key and stores another one in its entry, while a packet for the first is under way.
func (r *reuser) replace(old, next uint64, begin func()) error {
	if err := r.store(wire.OpDelete, old, nil); err != nil {
		return err
	}
	o, _, err := r.Object(wire.Key{Hi: old})
	if err != nil {
		return err
	}
	if err := r.configure(o.Version); err != nil {
		return err
	}
	begin()
	_, err = r.Collect()
	if err == nil {
		err = r.store(wire.OpPut, next, r.value(next))
	}
	r.stored = err == nil
	r.waitForPacket()
	if errors.Is(err, dataplane.ErrFull) { // the packet went on too soon, and wrote the first key again
		return nil
	}
	if err != nil {
		return err
	}
	o, found, err := r.Object(wire.Key{Hi: next})
	if err != nil {
		return err
	}
	if !found || !bytes.Equal(o.Value, r.value(next)) {
		return fmt.Errorf("key %d has the value %x, found %v", next, o.Value, found)
	}
	return nil
}

// reads are the packets that read without a lock.
var reads = map[string]func(r *reuser, read *wire.Message) ([]byte, error){
	"single": func(r *reuser, read *wire.Message) ([]byte, error) {
		return r.run(r.paused.Ingress, at(9), read.Append(nil))
	},
	"forwarded": func(r *reuser, read *wire.Message) ([]byte, error) {
		read.Op, read.Client, read.ClientOp = wire.OpForward, at(9), wire.OpRead
		return r.run(r.paused.Ingress, at(3), read.Append(nil))
	},
	"bundled": func(r *reuser, read *wire.Message) ([]byte, error) {
		b := wire.NewBundle(nil, 1, wire.SlotFor(wire.VersionBytes+r.cell))
		b.Put(0, read)
		out, err := r.run(r.paused.Bundle, at(9), b)
		if err != nil || len(out) != len(b) {
			return nil, err
		}
		m, _ := wire.Bundle(out).Message(0)
		return m, nil
	},
	"at tc": func(r *reuser, read *wire.Message) ([]byte, error) {
		return r.run(r.paused.Grow, at(9), read.Append(nil))
	},
}

// TestReadsOfReusedEntries answers no read with the value of another key.
func TestReadsOfReusedEntries(t *testing.T) {
	for name, send := range reads {
		for _, cell := range []int{16, 200} {
			t.Run(fmt.Sprint(name, " of ", cell, " bytes"), func(t *testing.T) {
				newReuser(t, cell).beside(t, func(r *reuser, key uint64) error {
					m := wire.Message{Op: wire.OpRead, Epoch: 1, Key: wire.Key{Hi: key}}
					out, err := send(r, &m)
					var reply wire.Message
					if err != nil || wire.DecodeReply(out, &reply) != nil || reply.Status() != wire.StatusOk {
						return err
					}
					if !bytes.Equal(reply.Value, r.value(key)) {
						return fmt.Errorf("a read of key %d gave %x", key, reply.Value)
					}
					return nil
				})
			})
		}
	}
}

// TestWritesOfReusedEntries changes no object by the write of another key.
func TestWritesOfReusedEntries(t *testing.T) {
	for name, cell := range map[string]int{"short": 16, "long": 200} {
		t.Run(name, func(t *testing.T) {
			seq := uint64(0)
			newReuser(t, cell).beside(t, func(r *reuser, key uint64) error {
				seq++
				m := wire.Message{Op: wire.OpDelete, Epoch: 1, Key: wire.Key{Hi: key}, Session: 2, Seq: seq}
				_, err := r.run(r.paused.Ingress, at(9), m.Append(nil))
				return err
			})
		})
	}
}

// TestCopiesOfReusedEntries copies no object as that of another key, and takes none over in place of another key's,
// though older kernels preempt these programs.
func TestCopiesOfReusedEntries(t *testing.T) {
	for _, cell := range []int{16, 200} {
		options := chain.Options{CellBytes: cell}
		t.Run(fmt.Sprint("copy of ", cell, " bytes"), func(t *testing.T) {
			newReuser(t, cell).beside(t, func(r *reuser, key uint64) error {
				o, found, err := r.paused.object(wire.Key{Hi: key}, recordBytes(options))
				if err == nil && found && !o.Tombstone && !bytes.Equal(o.Value, r.value(key)) {
					err = fmt.Errorf("a copy of key %d is %x", key, o.Value)
				}
				return err
			})
		})
		t.Run(fmt.Sprint("takeover of ", cell, " bytes"), func(t *testing.T) {
			version := uint64(0)
			newReuser(t, cell).beside(t, func(r *reuser, key uint64) error {
				version += 1 << 32
				o := chain.Object{Version: version, Value: r.value(key)}
				err := r.paused.importObjects([]dataplane.KeyedObject{{Key: wire.Key{Hi: key}, Object: o}}, options)
				if errors.Is(err, dataplane.ErrFull) {
					return nil
				}
				return err
			})
		})
	}
}

// beside replaces one object by the other again and again, each time beside a packet for the one that is deleted.
func (r *reuser) beside(t *testing.T, packet func(r *reuser, key uint64) error) {
	t.Helper()
	const rounds = 50
	keys, met := make(chan uint64), 0
	ended := make(chan error, 1)
	go func() {
		var err error
		for key := range keys {
			r.packets.Add(1)
			if err == nil {
				err = packet(r, key)
			}
			r.packets.Add(1)
		}
		ended <- err
	}()
	old, next := uint64(1), uint64(2)
	err := r.configure(0)
	if err == nil {
		err = r.store(wire.OpPut, old, r.value(old))
	}
	for i := 0; i < rounds && err == nil; i++ {
		err = r.replace(old, next, func() {
			before := r.packets.Load()
			keys <- old
			for r.packets.Load() == before {
				runtime.Gosched()
			}
		})
		if r.stored {
			old, next, met = next, old, met+1
		}
	}
	close(keys)
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
	if met == 0 && !t.Failed() {
		t.Skip("no entry was used again beside a packet: on one CPU, none is")
	}
	t.Logf("%d entries were used again", met)
}
