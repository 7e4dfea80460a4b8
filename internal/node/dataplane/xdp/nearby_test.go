package xdp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/verify/conformance"
	"github.com/netcraq/netcraq/wire"
)

// readNearby reads one key.
func readNearby(n *Nearby, key wire.Key) (value string, version uint64, answered bool, err error) {
	err = n.Read([]wire.Key{key}, func(_ int, v uint64, _ uint32, found []byte) {
		value, version, answered = string(found), v, true
	})
	return value, version, answered, err
}

// wantNearby returns an error unless a read of a key gives the value; "": no answer.
func wantNearby(n *Nearby, key wire.Key, want string) error {
	got, _, answered, err := readNearby(n, key)
	if err != nil {
		return err
	}
	if answered != (want != "") || got != want {
		return fmt.Errorf("a read gave %q, answered %v, want %q", got, answered, want)
	}
	return nil
}

func putMessage(seq uint64, value string) *wire.Message {
	return &wire.Message{Op: wire.OpPut, Epoch: 1, Key: wire.Key{Hi: 1}, Session: 1, Seq: seq, Value: []byte(value)}
}

// putNearby writes a value and makes sure that a reader sees it.
func putNearby(p *Plane, n *Nearby, key wire.Key, seq uint64, value string) error {
	if answered, err := send(p, putMessage(seq, value)); err != nil || !answered {
		return fmt.Errorf("put: answered %v, %w", answered, err)
	}
	return wantNearby(n, key, value)
}

// TestNearby follows one reader through the life of a data plane: lease, epoch, the agent's end and return, removal.
func TestNearby(t *testing.T) {
	o, key := testOptions(t), wire.Key{Hi: 1}
	inNamespace(t, func() error {
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer func() { p.Close() }()
		if err := configureLone(p); err != nil {
			return err
		}
		n, err := OpenNearby(o.Pin)
		if err != nil {
			return err
		}
		defer n.Close()
		if node, err := PinnedNode(o.Pin); err != nil || node != conformance.Me {
			return fmt.Errorf("the node is %v, %w", node, err)
		}
		if err := wantNearby(n, key, ""); err != nil {
			return fmt.Errorf("before the first write: %w", err)
		}
		if err := putNearby(p, n, key, 1, "first"); err != nil {
			return err
		}
		if err := errors.Join(countsNearby(p, n, key), leaseRules(p, n, key), p.Close()); err != nil {
			return err
		}
		if err := wantNearby(n, key, "first"); err != nil {
			return fmt.Errorf("without an agent: %w", err)
		}
		if p, err = Open(o); err != nil {
			return err
		}
		if err := putNearby(p, n, key, 2, "second"); err != nil || n.Gone() {
			return fmt.Errorf("after a takeover, gone %v: %w", n.Gone(), err)
		}
		if err := errors.Join(p.Close(), Remove(o.Pin)); err != nil {
			return err
		}
		if err := wantNearby(n, key, ""); err != nil || !n.Gone() {
			return fmt.Errorf("after the removal, gone %v: %w", n.Gone(), err)
		}
		if _, err = OpenNearby(o.Pin); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("opened after the removal: %w", err)
		}
		if p, err = Open(o); err != nil { // a new data plane in the place of the old one
			return err
		}
		return besideNew(p, n, key)
	})
}

// countsNearby checks that the node counts a read.
func countsNearby(p *Plane, n *Nearby, key wire.Key) error {
	before, err := p.Loads()
	if err != nil {
		return err
	}
	if err := wantNearby(n, key, "first"); err != nil {
		return err
	}
	after, err := p.Loads()
	if err != nil || after[0].Reads != before[0].Reads+1 {
		return fmt.Errorf("the node counts %d reads, then %d: %w", before[0].Reads, after[0].Reads, err)
	}
	return nil
}

// besideNew checks that a reader of a removed data plane does not answer while a new one serves.
func besideNew(p *Plane, n *Nearby, key wire.Key) error {
	if err := configureLone(p); err != nil {
		return err
	}
	if answered, err := send(p, putMessage(1, "other")); err != nil || !answered {
		return fmt.Errorf("put: answered %v, %w", answered, err)
	}
	if err := wantNearby(n, key, ""); err != nil || !n.Gone() {
		return fmt.Errorf("beside a new data plane, gone %v: %w", n.Gone(), err)
	}
	return nil
}

// leaseRules checks that a reader answers only with a lease, and only as a full member.
func leaseRules(p *Plane, n *Nearby, key wire.Key) error {
	learner := chain.ShardConfig{
		Epoch: 2, State: chain.Active, Members: []netip.AddrPort{at(1), conformance.Me, at(3)}, Self: 1, Learner: true,
	}
	for _, step := range []struct {
		what   string
		lease  time.Duration
		config *chain.ShardConfig
		want   string
	}{
		{"without a lease", 0, nil, ""},
		{"with a lease", time.Hour, nil, "first"},
		{"with a lease that is over", time.Nanosecond, nil, ""},
		{"as a learner", time.Hour, &learner, ""},
		{"out of the chain", time.Hour, &chain.ShardConfig{Epoch: 3}, ""},
	} {
		if step.config != nil {
			if err := p.ConfigureAll(map[uint16]chain.ShardConfig{0: *step.config}); err != nil {
				return err
			}
		}
		if err := p.Grant(0, step.lease); err != nil {
			return err
		}
		if err := wantNearby(n, key, step.want); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return configureLone(p)
}

// TestNearbyTables refuses tables whose meaning this program does not know.
func TestNearbyTables(t *testing.T) {
	o := testOptions(t)
	inNamespace(t, func() error {
		p, err := Open(o)
		if err != nil {
			return err
		}
		defer p.Close()
		if err := os.Remove(o.Pin + "/" + identityPin); err != nil {
			return err
		}
		newer := identityOf(o.Node, o.Chain)
		newer.TableVersion++
		if err := newer.pin(o.Pin); err != nil {
			return err
		}
		if _, err := OpenNearby(o.Pin); !errors.Is(err, ErrStalePins) {
			return fmt.Errorf("tables of another version: %w", err)
		}
		return nil
	})
}

// nearby opens a reader of a lone node's tables; pause lengthens its reads.
func (l *lone) nearby(t *testing.T, o chain.Options, pause uint32) *Nearby {
	t.Helper()
	n := newNearby()
	if err := n.load(l.objects.maps(), o.CellBytes, constants{
		"nq_shard_mask": uint32(o.Shards - 1), "nq_cell_bytes": uint32(o.CellBytes), "nq_weak_memory": weakMemory(),
		"nq_test_pause": pause, "nq_secret": secret{}, "nq_places": uint32(places(o)),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// TestNearbyIsLinearizable reads two keys together while packets write them, one after the other with the same number: a
// value is whole, no read goes back behind a read or a write that ended before, and the second key is never behind the
// first, since it is read later.
func TestNearbyIsLinearizable(t *testing.T) {
	const writes, readers, longest = 20000, 3, 1000
	o := chain.Options{Shards: 1, CellBytes: longest, MaxObjects: 4, MaxSessions: 4}
	l := newLone(t, o)
	n := l.nearby(t, o, 0)
	keys := []wire.Key{{Hi: 1}, {Hi: 2}} // the second is written first
	var written atomic.Uint64            // number of the last write of both that ended
	var answers atomic.Uint64
	inParallel(t, 1+readers, func(thread int) error {
		if thread == 0 {
			defer written.Store(writes)
			for i := uint64(1); i <= writes; i++ {
				value := bytes.Repeat(binary.BigEndian.AppendUint64(nil, i), 1+int(i*31)%(longest/8))
				for k, key := range []wire.Key{keys[1], keys[0]} {
					_, err := l.write(&wire.Message{
						Op: wire.OpPut, Epoch: 1, Key: key, Session: uint64(k + 1), Seq: i, Value: value,
					})
					if err != nil {
						return err
					}
				}
				written.Store(i)
			}
			return nil
		}
		var last [2]uint64
		for written.Load() < writes {
			least := written.Load()
			var now [2]uint64
			var bad error
			err := n.Read(keys, func(i int, version uint64, _ uint32, value []byte) {
				now[i] = binary.BigEndian.Uint64(value)
				if want := bytes.Repeat(value[:8], len(value)/8); !bytes.Equal(value, want) || version != now[i] {
					bad = fmt.Errorf("version %d has a torn value", version)
				}
			})
			if err = errors.Join(err, bad); err != nil {
				return err
			}
			for i := range now {
				if now[i] == 0 {
					continue
				}
				answers.Add(1)
				if now[i] < least || now[i] < last[i] {
					return fmt.Errorf("key %d is at %d, after a read of %d and a write of %d", i, now[i], last[i], least)
				}
				last[i] = now[i]
			}
			if now[0] != 0 && now[1] != 0 && now[1] < now[0] {
				return fmt.Errorf("the second key is at %d, the first was at %d", now[1], now[0])
			}
		}
		return nil
	})
	if answers.Load() == 0 {
		t.Error("no read was answered")
	}
	t.Logf("%d answers", answers.Load())
}

// longPause is a pause in which packets change an object several times.
const longPause = 5000

// TestNearbyOfDeletedEntries reads keys while their entries are deleted and used again for other keys: a read never gives
// the value of another key.
func TestNearbyOfDeletedEntries(t *testing.T) {
	const rounds, keys = 20000, 2
	o := chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 2, MaxSessions: 4}
	l := newLone(t, o)
	table, err := mapObjects(l.objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { table.close() })
	readers := []*Nearby{l.nearby(t, o, 0), l.nearby(t, o, longPause)}
	var over atomic.Bool
	value := func(key uint64) string { return string(binary.BigEndian.AppendUint64(make([]byte, 8), key)) }
	inParallel(t, 1+len(readers), func(thread int) error {
		if thread == 0 {
			defer over.Store(true)
			for i := range uint64(rounds) {
				key := wire.Key{Hi: i % keys}
				put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: key, Session: 1, Seq: i + 1, Value: []byte(value(key.Hi))}
				if reply, err := l.write(&put); err != nil || reply.Status() != wire.StatusOk {
					return fmt.Errorf("put: %v, %w", reply.Status(), err)
				}
				if i == rounds-1 {
					break
				}
				if err := table.remove([]tableKey{keyBytes(key)}); err != nil {
					return err
				}
			}
			return nil
		}
		for i := uint64(0); !over.Load(); i++ {
			key := wire.Key{Hi: i % keys}
			got, _, answered, err := readNearby(readers[thread-1], key)
			if err != nil {
				return err
			}
			if answered && got != value(key.Hi) {
				return fmt.Errorf("a read of key %d gave %x", key.Hi, got)
			}
		}
		return nil
	})
	for _, n := range readers {
		last := uint64(rounds-1) % keys
		if err := wantNearby(n, wire.Key{Hi: last}, value(last)); err != nil {
			t.Errorf("at the end: %v", err)
		}
	}
}

// TestNearbyEpoch reads a key while the shard gets new epochs, in each of which a write stores the epoch: the epoch of
// a read is never below that of its object.
func TestNearbyEpoch(t *testing.T) {
	const epochs = 20000
	o, key := chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 2, MaxSessions: 4}, wire.Key{Hi: 1}
	l := newLone(t, o)
	readers := []*Nearby{l.nearby(t, o, 0), l.nearby(t, o, longPause)}
	read := func(n *Nearby) (epoch, stored uint32, err error) {
		err = n.Read([]wire.Key{key}, func(_ int, _ uint64, e uint32, value []byte) {
			epoch, stored = e, binary.BigEndian.Uint32(value)
		})
		return epoch, stored, err
	}
	var over atomic.Bool
	inParallel(t, 1+len(readers), func(thread int) error {
		if thread == 0 {
			defer over.Store(true)
			for e := uint32(2); e <= epochs; e++ {
				configs := map[uint16]chain.ShardConfig{0: {Epoch: e, State: chain.Active, Members: []netip.AddrPort{conformance.Me}}}
				l.shards.prepare(configs)
				l.shards.commit(configs)
				put := wire.Message{
					Op: wire.OpPut, Epoch: e, Key: key, Session: 1, Seq: uint64(e), Value: binary.BigEndian.AppendUint32(nil, e),
				}
				if reply, err := l.write(&put); err != nil || reply.Status() != wire.StatusOk {
					return fmt.Errorf("put: %v, %w", reply.Status(), err)
				}
			}
			return nil
		}
		for !over.Load() {
			epoch, stored, err := read(readers[thread-1])
			if err != nil {
				return err
			}
			if epoch < stored {
				return fmt.Errorf("a read in epoch %d gave the object of epoch %d", epoch, stored)
			}
		}
		return nil
	})
	for _, n := range readers {
		if epoch, stored, err := read(n); err != nil || epoch != epochs || stored != epochs {
			t.Errorf("at the end a read in epoch %d gave the object of epoch %d: %v", epoch, stored, err)
		}
	}
}
