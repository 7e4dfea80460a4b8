package chainlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/verify/softchain"
	"github.com/netcraq/netcraq/wire"
)

const number = 77 // of the keyspace of these tests

// newEras makes the log of era 1 in a chain of its own.
func newEras(t *testing.T, entries int) (*client.Client, *Eras) {
	t.Helper()
	c := softchain.Connect(t, softchain.Start(t, 3, 4, 10_000))
	e := NewEras(c, nil, name, number, entries)
	if err := e.Make(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
	return c, e
}

// eraReader follows the log of era 1.
type eraReader struct {
	t     *testing.T
	e     *Eras
	at    core.Cursor
	found []string // payloads, each with its entry and term
}

func readerOf(t *testing.T, e *Eras) *eraReader {
	return &eraReader{t: t, e: e, at: core.Cursor{Next: 1}}
}

// follow reads to the log's end.
func (r *eraReader) follow(n int) core.Verdict {
	r.t.Helper()
	for {
		cells, err := r.e.Cells(r.t.Context(), 1, r.at.Next, n)
		if err != nil {
			r.t.Error(err)
			return core.Lost
		}
		for _, c := range cells {
			if v := r.at.Take(c.Cell); v != core.Entry {
				return v
			}
			r.found = append(r.found, fmt.Sprintf("%d/%d/%s", c.Index, c.Term, c.Payload))
		}
	}
}

// lead fences the log for a term.
func (r *eraReader) lead(term uint64) core.Step {
	r.t.Helper()
	for {
		step, err := r.e.Fence(r.t.Context(), 1, term, r.at)
		if err != nil {
			r.t.Error(err)
			return core.Deposed
		}
		if step == core.Written || step == core.Deposed {
			return step
		}
		if v := r.follow(4); v != core.End {
			return core.Deposed
		}
	}
}

// seal ends the log as a recovery does.
func (r *eraReader) seal() {
	r.t.Helper()
	for {
		if v := r.follow(1); v != core.End {
			return
		}
		cells, err := r.e.Cells(r.t.Context(), 1, r.at.Next, 1)
		if err != nil {
			r.t.Error(err)
			return
		}
		if sealed, err := r.e.Seal(r.t.Context(), 1, r.at.Next, r.at.Term, cells[0].Version); err != nil || sealed {
			if err != nil {
				r.t.Error(err)
			}
			return
		}
	}
}

// nearbyRing answers for the objects of a ring with even slots.
type nearbyRing struct {
	slots map[wire.Key]int
	value []byte
}

func (n *nearbyRing) Read(keys []wire.Key, answer func(i int, version uint64, epoch uint32, value []byte)) {
	buffer := slices.Clone(n.value)
	for i, key := range keys {
		if slot, known := n.slots[key]; known && slot%2 == 0 {
			answer(i, 5, 1, buffer)
		}
	}
	clear(buffer) // a value is valid during the call only
}

// TestCellsNearby: a node on the machine answers for the cells that it has, and the chain for the others.
func TestCellsNearby(t *testing.T) {
	c, e := newEras(t, 8)
	if err := e.probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), 1, 3, 1, [][]byte{[]byte("c1"), []byte("c2"), []byte("c3"), []byte("c4")}); err != nil {
		t.Fatal(err)
	}
	r := record{keyspace: number, term: 3, index: 2, payload: []byte("near")}
	near := &nearbyRing{slots: make(map[wire.Key]int), value: r.encode()}
	for slot := range 8 {
		key, err := wire.HashKey([]byte(e.ring(1).entryKey(slot)))
		if err != nil {
			t.Fatal(err)
		}
		near.slots[key] = slot
	}
	cells, err := NewEras(c, near, name, number, 8).Cells(t.Context(), 1, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, cell := range cells {
		found = append(found, fmt.Sprintf("%s/%d", cell.Payload, cell.Version))
	}
	chain, err := e.Cells(t.Context(), 1, 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("c1/%d", chain[0].Version), "near/5", fmt.Sprintf("c3/%d", chain[2].Version), "near/5"}
	if !slices.Equal(found, want) {
		t.Errorf("the cells are %v, not %v", found, want)
	}
}

// TestEra: writers follow one another while earlier ones go on and readers follow, until a recoverer seals the log. All
// readers find the same entries, and each acknowledged one is there at its index: none is behind the seal.
func TestEra(t *testing.T) {
	const writers, runs, ring = 5, 20, 2048
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c, e := newEras(t, ring)
	var acked [writers][]string
	var busy sync.WaitGroup
	for i := range writers {
		term, random := uint64(i+1), rand.New(rand.NewPCG(seed, uint64(i)))
		own := NewEras(c, nil, name, number, ring) // of its own gateway
		half := make(chan struct{})
		passed := sync.OnceFunc(func() { close(half) })
		busy.Go(func() {
			defer passed()
			r := readerOf(t, own)
			if r.lead(term) != core.Written {
				return
			}
			next := r.at.Next
			for n := range runs {
				var payloads [][]byte
				for j := range 1 + random.IntN(5) {
					payloads = append(payloads, fmt.Appendf(nil, "w%d-%d-%d", term, n, j))
				}
				err := own.Write(t.Context(), 1, term, next, payloads)
				if errors.Is(err, ErrDeposed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range payloads {
					acked[i] = append(acked[i], fmt.Sprintf("%d/%d/%s", next, term, p))
					next++
				}
				if n == runs/2 {
					passed()
				}
				r.follow(1 + random.IntN(40)) // what it reads is no version of its own
			}
		})
		<-half
	}
	sealer := readerOf(t, NewEras(c, nil, name, number, ring))
	sealer.seal()
	busy.Wait()
	all := readerOf(t, e)
	if v := all.follow(128); v != core.Sealed {
		t.Fatalf("the log ends with %d", v)
	}
	if sealer.follow(1); !slices.Equal(sealer.found, all.found) {
		t.Error("two readers found different entries")
	}
	for i := range acked {
		for _, a := range acked[i] {
			if !slices.Contains(all.found, a) {
				t.Errorf("%s was acknowledged", a)
			}
		}
	}
	t.Logf("%d entries, %d acknowledged by the last writer", len(all.found), len(acked[writers-1]))
	if step := readerOf(t, e).lead(writers + 1); step != core.Deposed {
		t.Errorf("a writer after the seal: %d", step)
	}
}

// TestDeposedWriterOverwritesNothing: a writer does not take the version that it read of a later writer's entry for one
// that it may replace.
func TestDeposedWriterOverwritesNothing(t *testing.T) {
	c, a := newEras(t, 32)
	b := NewEras(c, nil, name, number, 32)
	first := readerOf(t, a)
	if first.lead(1) != core.Written {
		t.Fatal("the first writer does not lead")
	}
	if err := a.Write(t.Context(), 1, 1, first.at.Next, [][]byte{[]byte("one")}); err != nil {
		t.Fatal(err)
	}
	second := readerOf(t, b)
	if second.lead(2) != core.Written {
		t.Fatal("the second writer does not lead")
	}
	first.follow(8)
	if err := a.Write(t.Context(), 1, 1, 3, [][]byte{[]byte("two")}); !errors.Is(err, ErrDeposed) {
		t.Errorf("the first writer: %v", err)
	}
	if err := b.Write(t.Context(), 1, 2, second.at.Next, [][]byte{[]byte("three")}); err != nil {
		t.Error(err)
	}
	all := readerOf(t, b)
	all.follow(5)
	if got := fmt.Sprint(all.found); got != "[1/1/ 2/1/one 3/2/ 4/2/three]" {
		t.Error(got)
	}
}

// TestEraLost: an object that the chain has lost is lost for readers, is not made by a writer or a recoverer, and other
// objects are as they were.
func TestEraLost(t *testing.T) {
	c, e := newEras(t, 32)
	r := readerOf(t, e)
	if r.lead(1) != core.Written {
		t.Fatal("not led")
	}
	key := e.ring(1).entryKey(3)
	if _, err := c.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := e.Write(t.Context(), 1, 1, 2, [][]byte{[]byte("x")}); err != nil {
		t.Error(err)
	}
	if err := e.Write(t.Context(), 1, 1, 3, [][]byte{[]byte("y"), []byte("z")}); !errors.Is(err, ErrLost) {
		t.Errorf("a write: %v", err)
	}
	if v := r.follow(8); v != core.Lost || r.at.Next != 3 {
		t.Errorf("the reader: %d at %d", v, r.at.Next)
	}
	if sealed, err := e.Seal(t.Context(), 1, 3, 1, 0); sealed || !errors.Is(err, ErrLost) {
		t.Errorf("a seal: %v, %v", sealed, err)
	}
	if _, err := e.Fence(t.Context(), 1, 2, r.at); !errors.Is(err, ErrLost) {
		t.Errorf("a fence: %v", err)
	}
	if _, err := c.Get(t.Context(), key); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("somebody made the object: %v", err)
	}
	cells, err := e.Cells(t.Context(), 2, 1, 3) // of an era without a log
	if err != nil || len(cells) != 3 || !cells[0].Lost {
		t.Errorf("%+v, %v", cells, err)
	}
}

// TestMakeEra: the log of an era is made again and again, also after a maker that ended early, and over what another
// keyspace of that name left. One with entries is not made.
func TestMakeEra(t *testing.T) {
	c, e := newEras(t, 300)
	if err := e.Make(t.Context(), 1, 1); err != nil {
		t.Errorf("again: %v", err)
	}
	r := e.ring(2)
	if _, err := r.makeObjects(t.Context(), []int{0, 5}, (&record{keyspace: number}).encode()); err != nil {
		t.Fatal(err)
	}
	other := record{keyspace: number + 1, term: 9, index: 7}
	if _, err := c.Put(t.Context(), r.entryKey(7), other.encode()); err != nil {
		t.Fatal(err)
	}
	if err := e.Make(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	if cells, err := e.Cells(t.Context(), 2, 0, 400); err != nil || len(cells) > 300 {
		t.Errorf("%d cells, %v", len(cells), err)
	}
	var cells []driver.Cell
	for len(cells) < 300 { // one call returns fewer if an answer is late
		more, err := e.Cells(t.Context(), 2, uint64(len(cells)), 300-len(cells))
		if err != nil {
			t.Fatalf("%d cells, %v", len(cells), err)
		}
		cells = append(cells, more...)
	}
	for i, cell := range cells {
		if cell.Cell != (core.Cell{}) || cell.Version == 0 {
			t.Errorf("cell %d of a new log is %+v", i, cell)
		}
	}
	if readerOf(t, e).lead(1) != core.Written {
		t.Fatal("not led")
	}
	if err := e.Make(t.Context(), 1, 1); !errors.Is(err, ErrUsed) {
		t.Errorf("a log with entries: %v", err)
	}
	small := softchain.Connect(t, softchain.Start(t, 1, 1, 10))
	if err := NewEras(small, nil, name, number, 100).Make(t.Context(), 1, 1); !errors.Is(err, client.ErrFull) {
		t.Errorf("a full chain: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Make(ctx, 3, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// TestRemoveEra: nothing is left of the log of an era, also if its removal was interrupted, and others stay.
func TestRemoveEra(t *testing.T) {
	_, e := newEras(t, 300)
	if err := e.Make(t.Context(), 2, 1); err != nil {
		t.Fatal(err)
	}
	r := e.ring(1)
	if _, err := r.removeObjects(t.Context(), []int{299, 200, 3}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Remove(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := e.Cells(t.Context(), 1, 0, 300)
	stay, err2 := e.Cells(t.Context(), 2, 0, 300)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	for i := range 300 {
		if !gone[i].Lost || stay[i].Lost {
			t.Errorf("object %d: %+v, and of the next era %+v", i, gone[i], stay[i])
		}
	}
}

// TestEraBounds: entries that the log cannot have are refused, and the longest one is read as it was.
func TestEraBounds(t *testing.T) {
	_, e := newEras(t, 16)
	if e.MaxPayload() != 0 || e.Ring() != 16 {
		t.Errorf("payload %d, ring %d", e.MaxPayload(), e.Ring())
	}
	if readerOf(t, e).lead(1) != core.Written {
		t.Fatal("not led")
	}
	most := e.MaxPayload()
	if most != wire.MaxValueBytes-headerBytes {
		t.Errorf("payload %d", most)
	}
	if err := e.Write(t.Context(), 1, 1, 2, [][]byte{make([]byte, most+1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a long entry: %v", err)
	}
	if err := e.Write(t.Context(), 1, 1, 2, make([][]byte, 17)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("many entries: %v", err)
	}
	want := randomBytes(rand.New(rand.NewPCG(1, 2)), most)
	for lap := range uint64(3) { // a writer replaces its own entries
		index := 2 + 16*lap
		for i := range uint64(16) {
			if err := e.Write(t.Context(), 1, 1, index+i, [][]byte{want}); err != nil {
				t.Fatal(err)
			}
		}
		cells, err := e.Cells(t.Context(), 1, index, 16)
		if err != nil || len(cells) != 16 {
			t.Fatalf("%d cells, %v", len(cells), err)
		}
		for i, cell := range cells {
			if !slices.Equal(cell.Payload, want) || cell.Index != index+uint64(i) {
				t.Errorf("lap %d: entry %d is %+v", lap, i, cell.Cell)
			}
		}
	}
}
