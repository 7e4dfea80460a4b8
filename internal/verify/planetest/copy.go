package planetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

func testNewer(t *testing.T, open func(*testing.T) Node) {
	p := open(t).Plane
	k := keyOf("k")
	session := chain.SessionKey{Session: 7, Shard: shardOf(k)}
	for i, step := range []struct {
		object, wantObject   chain.Object
		session, wantSession chain.Session
	}{
		{object: chain.Object{Version: 5, Committed: 3, Value: []byte("five")},
			wantObject:  chain.Object{Version: 5, Committed: 3, Value: []byte("five")},
			session:     chain.Session{Seq: 2, Version: 5, KeyLo: k.Lo, Op: wire.OpPut},
			wantSession: chain.Session{Seq: 2, Version: 5, KeyLo: k.Lo, Op: wire.OpPut}},
		{object: chain.Object{Version: 4, Committed: 4, Value: []byte("four")},
			wantObject: chain.Object{Version: 5, Committed: 4, Value: []byte("five")},
			session:    chain.Session{Seq: 1, Version: 4}, wantSession: chain.Session{Seq: 2, Version: 5,
				KeyLo: k.Lo, Op: wire.OpPut}},
		{object: chain.Object{Version: 5, Committed: 5, Value: []byte("fake")},
			wantObject:  chain.Object{Version: 5, Committed: 5, Value: []byte("five")},
			session:     chain.Session{Seq: 3, Version: 6, Result: 9, Op: wire.OpAdd},
			wantSession: chain.Session{Seq: 3, Version: 6, Result: 9, Op: wire.OpAdd}},
		{object: chain.Object{Version: 6, Committed: 2, Tombstone: true},
			wantObject: chain.Object{Version: 6, Committed: 5, Tombstone: true},
			session:    chain.Session{}, wantSession: chain.Session{Seq: 3, Version: 6, Result: 9, Op: wire.OpAdd}},
	} {
		check(t, p.Import([]dataplane.KeyedObject{{Key: k, Object: step.object}},
			[]dataplane.KeyedSession{{Key: session, Session: step.session}}))
		o, _, err := p.Object(k)
		check(t, err)
		w := step.wantObject
		same := o.Version == w.Version && o.Committed == w.Committed && o.Tombstone == w.Tombstone
		if !same || string(o.Value) != string(w.Value) || o.Writes != 0 {
			t.Errorf("step %d: %+v, want %+v", i, o, w)
		}
		check(t, p.Sessions(func(_ chain.SessionKey, s chain.Session) bool {
			if s != step.wantSession {
				t.Errorf("step %d: %+v, want %+v", i, s, step.wantSession)
			}
			return true
		}))
	}
}

// testImportBeside imports newer versions of an object while clients write it, and expects that no
// value is torn.
func testImportBeside(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	k := keyOf("k")
	stop := make(chan struct{})
	var group errgroup.Group
	for i := range writers {
		w := writer{node: n, session: uint64(i + 1), stop: stop}
		group.Go(func() error {
			for !w.stopped() {
				if err := w.put(k); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := importNewer(n, k)
	close(stop)
	check(t, errors.Join(err, group.Wait()))
}

func importNewer(n Node, k wire.Key) error {
	const ahead = 3 // versions that clients may order before the import is applied
	var copies []dataplane.KeyedObject
	for i := range uint64(imports) {
		o, _, err := n.Plane.Object(k)
		if err != nil {
			return err
		}
		if o.Version > 0 && !isWhole(o.Value) {
			return fmt.Errorf("version %d is torn: %x", o.Version, o.Value)
		}
		copies = copies[:0]
		for range 2 * ahead {
			o.Version += ahead
			object := chain.Object{Version: o.Version, Committed: o.Version, Value: wholeValue(i << 40)}
			copies = append(copies, dataplane.KeyedObject{Key: k, Object: object})
		}
		if err := n.Plane.Import(copies, nil); err != nil {
			return err
		}
	}
	return nil
}

const (
	imports = 3000

	writers      = 3
	writerRounds = 40
	hotKeys      = 8
	coldKeys     = 100
)

func name(i int) wire.Key { return keyOf(fmt.Sprint("key ", i)) }

// testCopy copies one node's shards into another while clients write to both. It expects that no
// copy is torn, that no version decreases, and that the copy is complete once the writes have
// ended.
func testCopy(t *testing.T, open func(*testing.T) Node) {
	from, to := open(t), open(t)
	alone(t, from)
	alone(t, to)
	fill := writer{node: from, session: 1}
	for i := range coldKeys {
		check(t, fill.put(name(i)))
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err)
	}
	for i := range 2 * writers {
		w := writer{node: []Node{from, to}[i%2], session: uint64(10 + i)}
		group.Go(func() {
			for round := range writerRounds * hotKeys {
				if err := w.put(name(round % hotKeys)); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	copier := make(chan error)
	go func() { copier <- copyUntil(done, from, to) }()
	group.Wait()
	close(done)
	check(t, errors.Join(append(failed, <-copier)...))
	checkCopy(t, from, to)
}

// copyUntil repeats the copy, at least once, and checks that no version decreases at either node.
func copyUntil(done <-chan struct{}, from, to Node) error {
	var seen [2]contents
	for {
		for i, n := range []Node{from, to} {
			now, err := export(n.Plane, allShards())
			if err != nil {
				return err
			}
			for k, o := range seen[i].objects {
				if now.objects[k].Version < o.Version || now.objects[k].Committed < o.Committed {
					return fmt.Errorf("node %d: %v went from version %d, %d committed, to %+v", i, k, o.Version,
						o.Committed, now.objects[k])
				}
			}
			seen[i] = now
		}
		if err := seen[0].importInto(to.Plane); err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		default:
		}
	}
}

func checkCopy(t *testing.T, from, to Node) {
	t.Helper()
	last, err := export(from.Plane, allShards())
	check(t, err)
	check(t, last.importInto(to.Plane))
	all, err := export(to.Plane, allShards())
	check(t, err)
	for k, o := range last.objects {
		if all.objects[k].Version < o.Version {
			t.Errorf("%v has version %d, its copy %d", k, o.Version, all.objects[k].Version)
		}
		if got := status(t, to, k); got != wire.StatusOk { // the reply's checksum includes the sum stored with the value
			t.Errorf("%v at the copy: %v", k, got)
		}
	}
	if len(all.objects) != coldKeys {
		t.Errorf("%d objects were copied of %d", len(all.objects), coldKeys)
	}
	configure(t, to, chain.ShardConfig{})
	check(t, to.Plane.Drop(allShards()))
	check(t, last.importInto(to.Plane))
	again, err := export(to.Plane, allShards())
	check(t, errors.Join(err, last.differs(again)))
}

func testDrop(t *testing.T, open func(*testing.T) Node) {
	n := open(t)
	alone(t, n)
	w := writer{node: n, session: 1}
	for i := range coldKeys {
		check(t, w.put(name(i)))
	}
	before, err := export(n.Plane, allShards())
	check(t, err)
	half := allShards()[:Options.Shards/2]
	if err := n.Plane.Drop(half); err == nil {
		t.Error("shards that are served were dropped")
	}
	leave := make(map[uint16]chain.ShardConfig)
	for _, shard := range half {
		leave[shard] = chain.ShardConfig{}
	}
	check(t, n.Plane.ConfigureAll(leave))
	check(t, n.Plane.Drop(half))
	after, err := export(n.Plane, allShards())
	check(t, err)
	for k := range before.objects {
		if _, kept := after.objects[k]; kept != (int(shardOf(k)) >= len(half)) {
			t.Errorf("object %v of shard %d: kept %v", k, shardOf(k), kept)
		}
	}
	for k := range before.sessions {
		if _, kept := after.sessions[k]; kept != (int(k.Shard) >= len(half)) {
			t.Errorf("session %v: kept %v", k, kept)
		}
	}
	usage, err := n.Plane.Usage()
	check(t, err)
	if usage.Objects != len(after.objects) || usage.Sessions != len(after.sessions) || usage.Objects == 0 {
		t.Errorf("usage %+v, but %d objects and %d sessions are there", usage, len(after.objects), len(after.sessions))
	}
	only, err := export(n.Plane, allShards()[len(half):len(half)+1])
	check(t, err)
	for k := range only.objects {
		if int(shardOf(k)) != len(half) {
			t.Errorf("%v of shard %d was exported with shard %d", k, shardOf(k), len(half))
		}
	}
}

func testFull(t *testing.T, open func(*testing.T) Node) {
	p := open(t).Plane
	var objects []dataplane.KeyedObject
	for i := range Options.MaxObjects + 1 {
		objects = append(objects, dataplane.KeyedObject{Key: name(i),
			Object: chain.Object{Version: 1, Value: wholeValue(uint64(i))}})
	}
	if err := p.Import(objects, nil); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("one object too many: %v", err)
	}
	check(t, p.Import(objects[:Options.MaxObjects], nil))
	var sessions []dataplane.KeyedSession
	for i := range Options.MaxSessions + 1 {
		sessions = append(sessions, dataplane.KeyedSession{Key: chain.SessionKey{Session: uint64(i + 1)},
			Session: chain.Session{Seq: 1}})
	}
	if err := p.Import(nil, sessions); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("one session too many: %v", err)
	}
	check(t, p.Import(nil, sessions[:Options.MaxSessions]))
	large := objects[:1]
	large[0].Object = chain.Object{Version: 9, Value: make([]byte, Options.CellBytes+1)}
	if err := p.Import(large, nil); err == nil || errors.Is(err, dataplane.ErrFull) {
		t.Errorf("a value too long: %v", err)
	}
	usage, err := p.Usage()
	check(t, err)
	if usage.Objects != Options.MaxObjects || usage.Sessions != Options.MaxSessions {
		t.Errorf("usage %+v", usage)
	}
}
