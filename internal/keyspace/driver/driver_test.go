package driver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/keyspace/core"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
	"github.com/netcraq/netcraq/internal/keyspace/journal"
)

// All gateways are killed and the chain loses the log: every acknowledged batch is there again, once and in its order.
func TestNothingLost(t *testing.T) {
	w := newWorld(t, 64)
	names := []string{"a", "b", "c"}
	era := uint64(0)
	for round := range 3 {
		var all []*gateway
		for _, name := range names {
			all = append(all, w.start(name))
		}
		for _, g := range all {
			w.follows(g, era, 3)
		}
		w.write(all[round], 40)
		for _, g := range all {
			w.has(g)
			era = w.follows(g, 0, 3)
		}
		for _, name := range names {
			w.kill(name)
		}
		if err := w.log.Remove(w.ctx, era); err != nil {
			t.Fatal(err)
		}
	}
}

// A writer finds its fence, and hands its entries to all gateways: none reads them from the chain. All hear at once
// what counts, although no entries follow.
func TestEntriesAreHandedOver(t *testing.T) {
	w := newWorld(t, 64)
	w.poll = patience // nothing looks, and nothing is told again, before the test ends
	all := []*gateway{w.start("a"), w.start("b"), w.start("c")}
	for _, g := range all {
		w.follows(g, 0, 3)
	}
	lead, err := all[0].Lead(w.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	applied := func(index uint64) {
		for i, g := range all {
			if s, err := g.Wait(w.ctx, func(s driver.Status) bool { return s.Applied >= index }); err != nil {
				t.Fatalf("gateway %d: %v: %+v, not entry %d", i, err, s, index)
			}
		}
	}
	applied(lead.Next() - 1)
	w.log.away.Store(true)
	for range 5 {
		index, err := lead.Append(w.ctx, make([]byte, 3000), func(uint64) {})
		if err != nil {
			t.Fatal(err)
		}
		applied(index)
	}
}

// A second gateway with the name of one that runs ends and says why, and the first one goes on undisturbed. When that
// has ended, the name is free.
func TestNameOfAnother(t *testing.T) {
	w := newWorld(t, 64)
	a := w.start("a")
	era := w.follows(a, 0, 1)
	twin := w.startAt("twin", "a")
	if err := <-twin.done; !errors.Is(err, journal.ErrUsed) || !strings.Contains(err.Error(), "--member") {
		t.Fatal(err)
	}
	w.near.Leave("twin")
	w.write(a, 3)
	if now := w.follows(a, 0, 1); now != era {
		t.Errorf("era %d after %d", now, era)
	}
	w.start("b")
	w.start("c")
	era = w.follows(a, era, 3)
	w.kill("a")
	w.has(w.startAt("twin", "a"))
	w.follows(w.gateways["twin"], era, 3)
}

// A gateway says for whom it waits.
func TestReason(t *testing.T) {
	w := newWorld(t, 64)
	a := w.start("a")
	w.start("b")
	w.start("c")
	w.follows(a, 0, 3)
	w.kill("b")
	w.kill("c")
	for reason := ""; !strings.Contains(reason, "start the gateways of b, c"); {
		if w.ctx.Err() != nil {
			t.Fatal(reason)
		}
		reason = a.Reason(w.ctx).Error()
	}
}

// A take-over whose caller has given up ends, although the chain no longer answers.
func TestLeadEnds(t *testing.T) {
	w := newWorld(t, 16)
	a := w.start("a")
	w.follows(a, 0, 1)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := a.Lead(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A gateway that was away while the ring went round gets the state from another one; so does one whose disk was emptied
// or damaged, and it has a place in the next era.
func TestBehind(t *testing.T) {
	w := newWorld(t, 16)
	a, b := w.start("a"), w.start("b")
	w.start("c")
	era := w.follows(a, 0, 3)
	w.write(a, 5)
	w.kill("c")
	w.write(b, 60)
	c := w.start("c")
	w.has(c)
	w.kill("c")
	w.empty("c")
	c = w.start("c")
	w.follows(c, era, 3)
	w.kill("a")
	w.write(c, 5)
	w.has(b)
	w.has(c)
	w.damage("a")
	era = w.follows(c, 0, 3)
	a = w.start("a")
	w.has(a)
	w.follows(a, era, 3) // before, b and c were needed
	w.kill("b")
	w.write(a, 5)
	w.has(c)
}

// A gateway learns of another one's entries without looking for them.
func TestEntriesAreTold(t *testing.T) {
	w := newWorld(t, 64)
	a := w.start("a")
	w.start("b")
	w.start("c")
	w.follows(a, 0, 3)
	w.kill("b")
	w.poll = patience // it does not look before the test ends
	b := w.start("b")
	w.write(a, 40)
	w.has(b)
}

// damage changes a byte of the log on a gateway's disk.
func (w *world) damage(name string) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, name, "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		w.t.Fatal(files, err)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], 100); err != nil {
		w.t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], 100); err != nil {
		w.t.Fatal(err)
	}
}

// Two of three disks are lost, and an operator gives them up: the keyspace goes on with what the third has, and gets new
// disks.
func TestGivenUp(t *testing.T) {
	w := newWorld(t, 64)
	a := w.start("a")
	w.start("b")
	w.start("c")
	era := w.follows(a, 0, 3)
	w.write(a, 40)
	w.has(a)
	for _, name := range []string{"b", "c"} {
		w.kill(name)
		w.empty(name)
	}
	for swapped := false; !swapped; {
		s, version, err := w.near.Read(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		lost := slices.DeleteFunc(slices.Clone(s.Active.Set), func(d core.Disk) bool { return d == a.Disk() })
		if s.Record, err = s.GiveUp(lost); err != nil {
			t.Fatal(err)
		}
		if _, swapped, err = w.near.Swap(w.ctx, version, s); err != nil {
			t.Fatal(err)
		}
	}
	era = w.follows(a, era, 1)
	w.has(a)
	b, c := w.start("b"), w.start("c")
	for _, g := range []*gateway{a, b, c} {
		w.follows(g, era, 3)
	}
	w.write(c, 5)
	w.has(a)
	w.has(b)
}

// A recovery that ended early has left a log in the chain, which has no room for another one.
func TestNoRoomForLogs(t *testing.T) {
	w := newWorld(t, 64)
	w.recover = 20 * time.Millisecond
	a := w.start("a")
	era := w.follows(a, 0, 1)
	w.write(a, 5)
	if err := w.log.Make(w.ctx, era+1, 1); err != nil {
		t.Fatal(err)
	}
	w.log.mu.Lock()
	w.log.room = 2
	w.log.mu.Unlock()
	for swapped := false; !swapped; {
		s, version, err := w.near.Read(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Recovering, s.Next = era+1, []core.Disk{a.Disk()}
		if _, swapped, err = w.near.Swap(w.ctx, version, s); err != nil {
			t.Fatal(err)
		}
	}
	w.follows(a, era, 1)
	w.has(a)
}
