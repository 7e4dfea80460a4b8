package chainlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/verify/softchain"
)

const name = "test"

// newLog makes a keyspace in a chain of its own.
func newChain(t *testing.T, entries int) *client.Client {
	t.Helper()
	c := softchain.Connect(t, softchain.Start(t, 3, 4, 10_000))
	if _, err := Create(t.Context(), c, name, 1, entries, 1); err != nil {
		t.Fatal(err)
	}
	return c
}

func openLog(t *testing.T, c *client.Client) *Log {
	t.Helper()
	l, err := Open(t.Context(), c, name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func writes(content []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	}
}

func ignore([]byte) error { return nil }

// leads opens the log and leads it.
func leads(t *testing.T, c *client.Client, term uint64) *Log {
	t.Helper()
	l := openLog(t, c)
	if err := l.Lead(t.Context(), term, ignore); err != nil {
		t.Fatal(err)
	}
	return l
}

// readAll returns all batches.
func readAll(t *testing.T, l *Log) (all []string) {
	t.Helper()
	for {
		batches, _, err := l.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(batches) == 0 {
			return all
		}
		for _, b := range batches {
			all = append(all, string(b))
		}
	}
}

// Writers follow one another while the earlier ones go on. Each acknowledged batch is in the log once, in its writer's
// order, and a batch without acknowledgement is there at most once.
func TestWritersFollowOneAnother(t *testing.T) {
	const writers, batches = 6, 15
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := newChain(t, 2048)
	acked := make([][]string, writers)
	var writing sync.WaitGroup
	for i := range writers {
		term := uint64(i + 2)
		random := rand.New(rand.NewPCG(seed, term))
		l, ready := openLog(t, c), make(chan struct{}, 1)
		writing.Go(func() {
			defer func() { ready <- struct{}{} }()
			if err := l.Lead(t.Context(), term, ignore); err != nil {
				t.Errorf("writer %d: %v", term, err)
				return
			}
			for n := range batches {
				batch := fmt.Sprintf("%d-%d-%x", term, n, randomBytes(random, random.IntN(3000)))
				if err := l.Append(t.Context(), []byte(batch)); err != nil {
					if !errors.Is(err, ErrDeposed) {
						t.Errorf("writer %d: %v", term, err)
					}
					return
				}
				acked[i] = append(acked[i], batch)
				if n == batches/2 {
					ready <- struct{}{} // the next writer begins
				}
			}
		})
		<-ready
	}
	writing.Wait()
	at := make(map[string]int)
	for i, batch := range readAll(t, openLog(t, c)) {
		if before, ok := at[batch]; ok {
			t.Errorf("%.20s is there twice, at %d and %d", batch, before, i)
		}
		at[batch] = i
	}
	for i := range acked {
		last := -1
		for _, batch := range acked[i] {
			place, ok := at[batch]
			if !ok || place < last {
				t.Errorf("%.20s was acknowledged: found %v, at %d after %d", batch, ok, place, last)
			}
			last = place
		}
	}
}

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// A batch that its writer did not complete does not count once there is another writer.
func TestIncompleteBatch(t *testing.T) {
	c := newChain(t, 64)
	a := leads(t, c, 2)
	if err := a.Append(t.Context(), []byte("whole")); err != nil {
		t.Fatal(err)
	}
	// The first and the third of four pieces arrive, and the writer is gone.
	for _, i := range []uint64{0, 2} {
		r := record{keyspace: a.meta.ID, term: 2, index: a.at.Next + i, left: uint32(3 - i), payload: []byte("piece")}
		if err := a.write(t.Context(), r.index, [][]byte{r.encode()}); err != nil {
			t.Fatal(err)
		}
	}
	b := leads(t, c, 3)
	if err := b.Append(t.Context(), []byte("next")); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(t.Context(), []byte("after")); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(readAll(t, openLog(t, c))); got != "[whole next after]" {
		t.Error(got)
	}
	late := record{keyspace: a.meta.ID, term: 2, index: a.at.Next + 1, left: 2, payload: []byte("late")}
	if err := a.write(t.Context(), late.index, [][]byte{late.encode()}); !errors.Is(err, ErrDeposed) {
		t.Errorf("the earlier writer's second piece: %v", err)
	}
}

// Writers that take over overwrite no entry that no snapshot contains, however often: the log ends full, not lost.
func TestFencesOverwriteNothing(t *testing.T) {
	const entries = 32
	c := newChain(t, entries)
	a := leads(t, c, 2)
	written := 0
	for ; ; written++ {
		err := a.Append(t.Context(), []byte{byte(written)})
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	term := uint64(2)
	for ; ; term++ {
		next := openLog(t, c)
		err := next.Lead(t.Context(), term+1, ignore)
		if got := len(readAll(t, openLog(t, c))); got != written {
			t.Fatalf("after term %d the log has %d of %d batches: %v", term+1, got, written, err)
		}
		if errors.Is(err, ErrFull) && term > 2 {
			break
		}
		if err != nil {
			t.Fatalf("term %d: %v", term+1, err)
		}
		a = next
	}
	if err := a.Save(t.Context(), term, a.Next()-1, term, writes(nil)); err != nil {
		t.Fatal(err)
	}
	leads(t, c, term+1) // the snapshot made room
}

// The ring is reused once a snapshot has its entries, and a reader that was too slow loads the snapshot.
func TestSnapshots(t *testing.T) {
	const entries = 32
	c := newChain(t, entries)
	slow, a := openLog(t, c), leads(t, c, 2)
	var content []byte
	for i := range 10 * entries {
		batch := fmt.Appendf(nil, "%d ", i)
		err := a.Append(t.Context(), batch)
		if errors.Is(err, ErrFull) {
			if err := a.Save(t.Context(), 2, a.Next()-1, 2, writes(content)); err != nil {
				t.Fatal(err)
			}
			err = a.Append(t.Context(), batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, batch...)
	}
	if _, _, err := slow.Read(t.Context()); !errors.Is(err, ErrBehind) {
		t.Fatalf("the slow reader: %v", err)
	}
	var got []byte
	loaded, err := slow.Load(t.Context(), func(r io.Reader) (err error) {
		got, err = io.ReadAll(r)
		return err
	})
	if !loaded || err != nil {
		t.Fatal(loaded, err)
	}
	for _, b := range readAll(t, slow) {
		got = append(got, b...)
	}
	if !bytes.Equal(got, content) {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
	if err := slow.Lead(t.Context(), 3, ignore); err != nil {
		t.Fatal(err)
	}
	if err := a.Save(t.Context(), 2, a.Next()-1, 2, writes([]byte("late"))); !errors.Is(err, ErrDeposed) {
		t.Errorf("the earlier writer's snapshot: %v", err)
	}
}

// A reader and a writer notice that the chain has lost an object.
func TestLost(t *testing.T) {
	c := newChain(t, 16)
	a := leads(t, c, 2)
	reader := openLog(t, c)
	readAll(t, reader)
	if _, err := c.Delete(t.Context(), a.entryKey(a.slot(a.at.Next))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, name); !errors.Is(err, ErrLost) {
		t.Errorf("a reader that begins: %v", err)
	}
	if _, _, err := reader.Read(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("the reader: %v", err)
	}
	if err := a.Append(t.Context(), []byte("x")); !errors.Is(err, ErrLost) {
		t.Errorf("the writer: %v", err)
	}
}

func TestBounds(t *testing.T) {
	c := newChain(t, 16)
	l := leads(t, c, 2)
	random := rand.New(rand.NewPCG(1, 2)) // does not compress
	if err := l.Append(t.Context(), randomBytes(random, 20_000)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a batch longer than half of the ring: %v", err)
	}
	if _, err := Open(t.Context(), c, "other"); !errors.Is(err, ErrNone) {
		t.Errorf("a keyspace that does not exist: %v", err)
	}
	small := softchain.Connect(t, softchain.Start(t, 1, 1, 10))
	if _, err := Create(t.Context(), small, name, 1, 100, 1); !errors.Is(err, client.ErrFull) {
		t.Errorf("a full keyspace: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

// TestMadeOnlyIfThereIsNone: a keyspace is not made anew if any object of one is left, and if the making of one was
// interrupted, the next writer completes it.
func TestMadeOnlyIfThereIsNone(t *testing.T) {
	c := newChain(t, 64)
	a := leads(t, c, 2)
	if err := a.Append(t.Context(), []byte("acknowledged")); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), c, name, 3, 64, 1); !errors.Is(err, ErrDeposed) {
		t.Errorf("made although it exists: %v", err)
	}
	if _, err := c.Delete(t.Context(), a.metaKey()); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(t.Context(), c, name, 3, 64, 1); !errors.Is(err, ErrLost) {
		t.Errorf("made anew after its description was lost: %v", err)
	}
	if err := a.Append(t.Context(), []byte("x")); err != nil {
		t.Errorf("an object was overwritten: %v", err)
	}
}

// TestInterruptedCreation: a writer is gone, or is late only, after it has made some objects of a keyspace. The next one
// makes the keyspace, and the earlier one does not complete its own any more.
func TestInterruptedCreation(t *testing.T) {
	c := softchain.Connect(t, softchain.Start(t, 3, 4, 10_000))
	for name, most := range map[string]int{"none": 0, "some": 10, "all": 64} {
		l := newLog(c, name, meta{Format: formatMeta, ID: 7, Entries: 64, ValueBytes: 100})
		version, err := l.begin(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		l.entries = most
		if err := l.clear(t.Context(), 2); most > 0 && err != nil {
			t.Fatal(err)
		}
		l.entries = 64
		if _, err := Open(t.Context(), c, name); !errors.Is(err, ErrNone) {
			t.Errorf("%s: a keyspace that is not complete: %v", name, err)
		}
		if _, err := Create(t.Context(), c, name, 1, 64, 1); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: a writer before: %v", name, err)
		}
		if next, err := Create(t.Context(), c, name, 3, 64, 1); err != nil || next.meta.ID == l.meta.ID {
			t.Fatalf("%s: the next writer: %v", name, err)
		}
		if err := l.clear(t.Context(), 2); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: the earlier writer overwrote an object: %v", name, err)
		}
		if _, err := l.describe(t.Context(), 2, 0, version); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: the earlier writer completed its keyspace: %v", name, err)
		}
		if l, err := Open(t.Context(), c, name); err != nil || l.Lead(t.Context(), 3, ignore) != nil {
			t.Errorf("%s: the keyspace cannot be led: %v", name, err)
		}
	}
}
