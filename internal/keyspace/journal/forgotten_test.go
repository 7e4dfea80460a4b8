package journal

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/netcraq/netcraq/internal/keyspace/core"
)

// twins are two journals that get the same writes. Only the first one forgets entries.
type twins struct {
	t       *testing.T
	random  *rand.Rand
	forgets *Journal
	keeps   *Journal
	era     uint64
	opened  []openedContent
}

// openedContent is a reader of a content, and what it must read.
type openedContent struct {
	r    io.ReadCloser
	want []Entry
}

func (w *twins) both(do func(j *Journal) error) { must(w.t, do(w.forgets), do(w.keeps)) }

// position draws one of the present entries.
func (w *twins) position() uint64 {
	return w.keeps.now.state + w.random.Uint64N(w.keeps.now.last()-w.keeps.now.state+1)
}

// step takes a random step.
func (w *twins) step(i int) {
	k := w.keeps
	switch n := w.random.IntN(20); {
	case n < 10:
		var entries []Entry
		for range 1 + w.random.IntN(30) {
			entries = append(entries, Entry{w.era*10 + uint64(i/50), fmt.Appendf(nil, "%d: %0*d", i, w.random.IntN(300), 0)})
		}
		w.both(func(j *Journal) error { return j.Append(entries) })
	case n < 13:
		w.both((*Journal).Flush)
	case n == 13:
		w.era++
		w.both(func(j *Journal) error { return j.Vow(w.era) })
	case n == 14: // entries that nobody has applied are dropped
		w.era++
		p := core.Position{Era: w.era, Index: max(w.forgets.now.forgot, w.position())}
		w.both(func(j *Journal) error { return j.Mark(p) })
	case n == 15:
		w.checkpoint(i)
	case n < 18:
		to := w.position()
		content, err := w.forgets.Content(to)
		must(w.t, err)
		want := append([]Entry(nil), k.Entries(k.now.state, to)...)
		w.opened = append(w.opened, openedContent{content, want})
	default:
		w.forgets.Forget(w.position())
		if got, want := w.forgets.Term(k.now.last()), k.Term(k.now.last()); got != want {
			w.t.Errorf("term %d of the last entry, want %d", got, want)
		}
	}
	if w.random.IntN(4) == 0 {
		w.readOpened()
	}
}

func (w *twins) checkpoint(i int) {
	index := max(w.forgets.now.forgot, w.position())
	if index == 0 {
		return
	}
	w.both(func(j *Journal) error {
		c, err := j.Prepare(index, text(fmt.Sprint("state ", i)))
		if err == nil {
			err = j.Checkpoint(c)
		}
		return err
	})
}

// readOpened reads what was opened some steps ago.
func (w *twins) readOpened() {
	for _, o := range w.opened {
		got, err := entriesOf(o.r)
		must(w.t, err, o.r.Close())
		if len(got) != len(o.want) || len(got) > 0 && !reflect.DeepEqual(got, o.want) {
			w.t.Fatalf("%d entries are read that are not the %d of the disk", len(got), len(o.want))
		}
	}
	w.opened = nil
}

// Whatever a journal has forgotten, its content is that of one that has forgotten nothing: while entries are written,
// dropped and replaced by checkpoints, and after it is opened again.
func TestForget(t *testing.T) {
	smallSegments(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dirs := []string{t.TempDir(), t.TempDir()}
	w := &twins{t: t, random: rand.New(rand.NewPCG(seed, 0)), forgets: open(t, dirs[0]), keeps: open(t, dirs[1])}
	forgotten := 0
	for i := range 1500 {
		w.step(i)
		forgotten = max(forgotten, int(w.forgets.now.forgot-w.forgets.now.state))
		if i%100 != 99 {
			continue
		}
		if got, want := read(t, w.forgets), read(t, w.keeps); !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d: %d entries behind %+v, want %d behind %+v", i, len(got.Entries), got.Stored, len(want.Entries), want.Stored)
		}
		if i%300 == 299 {
			w.readOpened()
			w.both(func(j *Journal) error { return j.Flush() })
			w.both((*Journal).Close)
			w.forgets, w.keeps = open(t, dirs[0]), open(t, dirs[1])
		}
	}
	w.readOpened()
	w.both((*Journal).Close)
	if forgotten < 100 {
		t.Errorf("%d entries were forgotten at most", forgotten)
	}
}

// Entries that the disk does not have yet stay in memory.
func TestForgetWritten(t *testing.T) {
	smallSegments(t)
	j := open(t, t.TempDir())
	held := func(want int) {
		t.Helper()
		if j.Forget(j.now.last()); j.Held() != want {
			t.Fatalf("%d entries are in memory, want %d", j.Held(), want)
		}
	}
	three := []Entry{{1, []byte("a")}, {1, []byte("b")}, {2, []byte("c")}}
	must(t, j.Append(three))
	held(3)
	must(t, j.Flush(), j.Append(three))
	held(3)
	must(t, j.Flush())
	held(0)
	must(t, j.Append(three), j.Flush())
	c, err := j.Prepare(7, text("state"))
	must(t, err, j.Checkpoint(c))
	held(2) // the log has them, and will be removed
	must(t, j.Flush())
	held(0)
	late, err := j.Prepare(8, text("state"))
	must(t, err)
	if j.Checkpoint(late) == nil {
		t.Error("a checkpoint without the entries behind it is taken")
	}
	must(t, j.Close())
}

// A bit that the disk has changed in entries that only the disk has is found.
func TestForgottenAreDamaged(t *testing.T) {
	smallSegments(t)
	dir := t.TempDir()
	j := open(t, dir)
	must(t, j.Append([]Entry{{1, bytes.Repeat([]byte{'x'}, 600)}, {1, bytes.Repeat([]byte{'y'}, 600)}}), j.Flush())
	j.Forget(2)
	name, data, _ := lastFile(t, dir)
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{'z'}, int64(bytes.Index(data, []byte("yyyy"))))
	must(t, err, f.Close())
	for to, damaged := range []bool{false, false, true} {
		r, err := j.Content(uint64(to))
		must(t, err)
		if _, err := entriesOf(r); Damaged(err) != damaged {
			t.Errorf("the content to entry %d: %v", to, err)
		}
		must(t, r.Close())
	}
	must(t, j.Close())
}
