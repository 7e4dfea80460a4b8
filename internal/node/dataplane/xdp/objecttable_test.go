package xdp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// TestInsertionsBesideRemovals stores a key while a packet that inserts it is paused, and a cell before the key's is freed:
// the key gets one cell. In every other round the packet has looked for the key and not yet begun to insert it, so that it
// meets the key behind a free cell. In the others it is paused anywhere.
func TestInsertionsBesideRemovals(t *testing.T) {
	const rounds, first, key = 30, 1, 2
	r := newReuserOf(t, 16, 4)
	if err := r.configure(0); err != nil {
		t.Fatal(err)
	}
	begin, ended := make(chan uint64), make(chan error, 1)
	go func() {
		var err error
		for seq := range begin {
			r.packets.Add(1)
			put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: wire.Key{Hi: key}, Session: 2, Seq: seq, Value: r.value(key)}
			if err == nil {
				_, err = r.run(r.paused.Ingress, at(9), put.Append(nil))
			}
			r.packets.Add(1)
		}
		ended <- err
	}()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	err := error(nil)
	for round := uint64(1); round <= rounds && err == nil; round++ {
		beside := r.insertBeside
		if round%2 == 0 {
			beside = r.insertBefore
		}
		if err = r.store(wire.OpPut, first, r.value(first)); err != nil {
			break
		}
		err = beside(first, key, random.Uint64N(2*stopped), func() {
			before := r.packets.Load()
			begin <- round
			for r.packets.Load() == before {
				runtime.Gosched()
			}
		})
		err = errors.Join(err, r.oneCellEach(), r.table.remove([]tableKey{keyBytes(wire.Key{Hi: key})}))
	}
	close(begin)
	if err := errors.Join(err, <-ended); err != nil {
		t.Error(err)
	}
}

// insertBeside lets a packet begin to insert a key behind another, which it removes some time later, and then stores the key
// itself.
func (r *reuser) insertBeside(first, key, after uint64, begin func()) error {
	begin()
	for i := uint64(0); i < after && r.packets.Load()%2 == 1; i++ {
		_ = r.packets.Load()
	}
	if err := r.table.remove([]tableKey{keyBytes(wire.Key{Hi: first})}); err != nil {
		return err
	}
	r.seq++
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: wire.Key{Hi: key}, Session: 1, Seq: r.seq, Value: r.value(key)}
	_, err := r.run(r.objects.Ingress, at(9), put.Append(nil))
	return err
}

// insertBefore stores a key behind another, which it removes then, while a packet is about to insert the key.
func (r *reuser) insertBefore(first, key, _ uint64, begin func()) error {
	begin()
	if err := r.Import([]dataplane.KeyedObject{written(wire.Key{Hi: key})}, nil); err != nil {
		return err
	}
	return r.table.remove([]tableKey{keyBytes(wire.Key{Hi: first})})
}

// oneCellEach returns an error if a key has two cells, or objects are counted wrongly, once no packet is under way.
func (r *reuser) oneCellEach() error {
	r.waitForPacket()
	cells := 0
	r.table.scan(0, r.table.cells, func(*nqObject, bool) { cells++ })
	if n := len(r.table.all()); n != cells || uint64(n) != r.usage[tableObjects] {
		return fmt.Errorf("%d objects are counted, %d keys have %d cells", r.usage[tableObjects], n, cells)
	}
	return nil
}

// reachOf returns the reach of a place.
func (t *objectTable) reachOf(place int) int { return int(native.Uint16(bytesOf(t.reach)[2*place:])) }

func (t *objectTable) longestReach() (longest int) {
	for i := range len(t.reach) * 4 {
		longest = max(longest, t.reachOf(i))
	}
	return longest
}

// written is an object that was written once.
func written(k wire.Key) dataplane.KeyedObject {
	return dataplane.KeyedObject{Key: k, Object: chain.Object{Version: 1, Committed: 1}}
}

// TestOnePlace gives all keys one place. The key that finds none of the place's cells free meets a full table, which has room
// for others. Once objects are gone, the next insertion shortens the reach to what the others need.
func TestOnePlace(t *testing.T) {
	o := chain.Options{Shards: 1, CellBytes: 16, MaxObjects: 2 * runCells, MaxSessions: 4}
	r := newReuserOf(t, o.CellBytes, o.MaxObjects)
	if err := r.configure(0); err != nil {
		t.Fatal(err)
	}
	objects := make([]dataplane.KeyedObject, runCells)
	for i := range objects {
		objects[i] = written(wire.Key{Hi: uint64(i + 1)})
	}
	if err := r.Import(objects, nil); err != nil {
		t.Fatal(err)
	}
	more := wire.Key{Hi: runCells + 1}
	put := wire.Message{Op: wire.OpPut, Epoch: 1, Key: more, Session: 1, Seq: 1, Value: []byte("x")}
	out, err := r.run(r.objects.Ingress, at(9), put.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	var reply wire.Message
	if err := wire.DecodeReply(out, &reply); err != nil || reply.Status() != wire.StatusFull {
		t.Fatalf("put of one key more: %v, %v, want %v", reply.Status(), err, wire.StatusFull)
	}
	if err := r.Import([]dataplane.KeyedObject{written(more)}, nil); !errors.Is(err, dataplane.ErrFull) {
		t.Errorf("import of one object more: %v, want %v", err, dataplane.ErrFull)
	}
	keep := 10
	gone := make([]tableKey, 0, runCells)
	for _, o := range objects[keep:] {
		gone = append(gone, keyBytes(o.Key))
	}
	if err := r.table.remove(gone); err != nil {
		t.Fatal(err)
	}
	if err := r.Import([]dataplane.KeyedObject{written(more)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := r.table.reachOf(0); got != keep+1 {
		t.Errorf("the reach is %d, want %d", got, keep+1)
	}
	if n := len(r.table.all()); n != keep+1 {
		t.Errorf("%d objects, want %d", n, keep+1)
	}
	if _, found, err := r.Object(objects[keep-1].Key); err != nil || !found {
		t.Errorf("the last object that stayed is not found: %v", err)
	}
}

// TestChosenKeys stores keys of two small numbers. Their words differ in the highest bits only, since numbers are big-endian:
// so many of them have the same sum of products with any two odd numbers.
func TestChosenKeys(t *testing.T) {
	const values = 256
	o := testOptions(t)
	o.Pin = ""
	o.Chain = chain.Options{Shards: 1, CellBytes: 16, MaxObjects: values * values, MaxSessions: 1}
	onPlane(t, o, func(p *Plane) error {
		objects := make([]dataplane.KeyedObject, 0, values*values)
		for i := range uint64(values * values) {
			objects = append(objects, written(wire.Key{Hi: i / values, Lo: i % values}))
		}
		if err := p.Import(objects, nil); err != nil {
			return err
		}
		if n := p.table.longestReach(); n > runCells/8 {
			return fmt.Errorf("the longest reach is %d", n)
		}
		return nil
	})
}

// TestReachesStayShort replaces all objects of a full table again and again.
func TestReachesStayShort(t *testing.T) {
	const count, rounds = 10_000, 8
	o := testOptions(t)
	o.Pin = ""
	o.Chain = chain.Options{Shards: 1, CellBytes: 16, MaxObjects: count, MaxSessions: 1}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	onPlane(t, o, func(p *Plane) error {
		next := rand.New(rand.NewPCG(seed, 1))
		random := func() dataplane.KeyedObject {
			return written(wire.Key{Hi: next.Uint64(), Lo: next.Uint64()})
		}
		objects := make([]dataplane.KeyedObject, count)
		for i := range objects {
			objects[i] = random()
		}
		if err := p.Import(objects, nil); err != nil {
			return err
		}
		if err := p.Import([]dataplane.KeyedObject{random()}, nil); !errors.Is(err, dataplane.ErrFull) {
			return fmt.Errorf("one object more: %w", err)
		}
		for range rounds {
			next.Shuffle(count, func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
			for piece := range slices.Chunk(objects, count/4) {
				gone := make([]tableKey, len(piece))
				for i := range piece {
					gone[i], piece[i] = keyBytes(piece[i].Key), random()
				}
				if err := errors.Join(p.table.remove(gone), p.Import(piece, nil)); err != nil {
					return err
				}
			}
		}
		longest := p.table.longestReach()
		t.Logf("the longest reach is %d", longest)
		if longest > runCells/4 {
			t.Errorf("the longest reach is %d", longest)
		}
		if n := len(p.table.all()); n != count {
			t.Errorf("%d objects, want %d", n, count)
		}
		for _, i := range []int{0, count / 2, count - 1} {
			if _, found, err := p.Object(objects[i].Key); err != nil || !found {
				return fmt.Errorf("object %d is not found: %w", i, err)
			}
		}
		return nil
	})
}
