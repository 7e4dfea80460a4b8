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
func newLog(t *testing.T, entries int) *client.Client {
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
		batches, err := l.Read(t.Context())
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
	c := newLog(t, 2048)
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
	c := newLog(t, 64)
	a := leads(t, c, 2)
	if err := a.Append(t.Context(), []byte("whole")); err != nil {
		t.Fatal(err)
	}
	// The first and the third of four pieces arrive, and the writer is gone.
	for _, i := range []uint64{0, 2} {
		r := record{keyspace: a.meta.ID, term: 2, index: a.next + i, left: uint32(3 - i), payload: []byte("piece")}
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
	late := record{keyspace: a.meta.ID, term: 2, index: a.next + 1, left: 2, payload: []byte("late")}
	if err := a.write(t.Context(), late.index, [][]byte{late.encode()}); !errors.Is(err, ErrDeposed) {
		t.Errorf("the earlier writer's second piece: %v", err)
	}
}

// The ring is reused once a snapshot has its entries, and a reader that was too slow loads the snapshot.
func TestSnapshots(t *testing.T) {
	const entries = 32
	c := newLog(t, entries)
	slow, a := openLog(t, c), leads(t, c, 2)
	var content []byte
	for i := range 10 * entries {
		batch := fmt.Appendf(nil, "%d ", i)
		err := a.Append(t.Context(), batch)
		if errors.Is(err, ErrFull) {
			if err := a.Save(t.Context(), 2, a.Next()-1, 2, content); err != nil {
				t.Fatal(err)
			}
			err = a.Append(t.Context(), batch)
		}
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, batch...)
	}
	if _, err := slow.Read(t.Context()); !errors.Is(err, ErrBehind) {
		t.Fatalf("the slow reader: %v", err)
	}
	r, err := slow.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
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
	if err := a.Save(t.Context(), 2, a.Next()-1, 2, []byte("late")); !errors.Is(err, ErrDeposed) {
		t.Errorf("the earlier writer's snapshot: %v", err)
	}
}

// A reader and a writer notice that the chain has lost an object.
func TestLost(t *testing.T) {
	c := newLog(t, 16)
	a := leads(t, c, 2)
	reader := openLog(t, c)
	readAll(t, reader)
	if _, err := c.Delete(t.Context(), a.entryKey(a.slot(a.next))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, name); !errors.Is(err, ErrLost) {
		t.Errorf("a reader that begins: %v", err)
	}
	if _, err := reader.Read(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("the reader: %v", err)
	}
	if err := a.Append(t.Context(), []byte("x")); !errors.Is(err, ErrLost) {
		t.Errorf("the writer: %v", err)
	}
}

func TestBounds(t *testing.T) {
	c := newLog(t, 16)
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
		t.Errorf("a keyspace without room: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Append(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}
