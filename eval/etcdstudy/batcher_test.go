package etcdstudy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// log is a commit function that remembers.
type log struct {
	mu       sync.Mutex
	txns     [][]Pair
	replaced []int // in each
	err      error
}

func (l *log) commit(pairs []Pair, replaced int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.txns, l.replaced = append(l.txns, slices.Clone(pairs)), append(l.replaced, replaced)
	return l.err
}

// putAll puts pairs one after the other without waiting for answers, and returns how long each waited.
func putAll(t *testing.T, b *Batcher, pairs ...Pair) []time.Duration {
	t.Helper()
	from, took := time.Now(), make([]time.Duration, len(pairs))
	var group sync.WaitGroup
	for i, p := range pairs {
		group.Go(func() {
			if err := b.Put(t.Context(), p); err != nil {
				t.Errorf("%v: %v", p, err)
			}
			took[i] = time.Since(from)
		})
		synctest.Wait()
	}
	group.Wait()
	b.Wait()
	return took
}

func TestBatchesGoWhenTheyAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		took := putAll(t, &Batcher{Size: 2, Delay: time.Second, Commit: l.commit}, Pair{"a", "1"}, Pair{"b", "2"},
			Pair{"c", "3"})
		if len(l.txns) != 2 || len(l.txns[0]) != 2 || len(l.txns[1]) != 1 {
			t.Errorf("%v", l.txns)
		}
		if took[0] != 0 || took[1] != 0 || took[2] != time.Second {
			t.Errorf("waited %v", took)
		}
	})
}

func TestBatchesOfOneDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		took := putAll(t, &Batcher{Size: 1, Delay: time.Second, Merge: true, Commit: l.commit}, Pair{"a", "1"},
			Pair{"a", "2"})
		if len(l.txns) != 2 || took[0] != 0 || took[1] != 0 {
			t.Errorf("%v after %v", l.txns, took)
		}
	})
}

// etcd refuses a transaction with two puts of one key: without merging, the second begins another.
func TestAKeyIsInATransactionOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		putAll(t, &Batcher{Size: 8, Delay: time.Second, Commit: l.commit}, Pair{"a", "1"}, Pair{"b", "1"},
			Pair{"a", "2"}, Pair{"c", "1"})
		if len(l.txns) != 2 || len(l.txns[0]) != 2 || len(l.txns[1]) != 2 || l.txns[1][0] != (Pair{"a", "2"}) {
			t.Errorf("%v", l.txns)
		}
	})
}

func TestOverwritesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(log)
		took := putAll(t, &Batcher{Size: 8, Delay: time.Second, Merge: true, Commit: l.commit}, Pair{"a", "1"},
			Pair{"b", "1"}, Pair{"a", "2"}, Pair{"a", "3"})
		if len(l.txns) != 1 || !slices.Equal(l.txns[0], []Pair{{"a", "3"}, {"b", "1"}}) || l.replaced[0] != 2 {
			t.Errorf("%v, %v replaced", l.txns, l.replaced)
		}
		if slices.Min(took) != time.Second || slices.Max(took) != time.Second {
			t.Errorf("waited %v", took)
		}
	})
}

func TestAFailureIsEverybodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{err: errors.New("no leader")}
		b := &Batcher{Size: 2, Delay: time.Second, Commit: l.commit}
		var group sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			group.Go(func() {
				if err := b.Put(t.Context(), Pair{key, ""}); !errors.Is(err, l.err) {
					t.Errorf("%s: %v", key, err)
				}
			})
		}
		group.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Put(ctx, Pair{"c", ""}); !errors.Is(err, context.Canceled) {
			t.Errorf("waited on: %v", err)
		}
		b.Wait() // the batch without a waiting put is sent all the same
		if len(l.txns) != 2 {
			t.Errorf("%v", l.txns)
		}
	})
}

// Under concurrent puts, every put is answered after a transaction with it or its successor.
func TestManyPutters(t *testing.T) {
	l := new(log)
	b := &Batcher{Size: 4, Delay: time.Millisecond, Merge: true, Commit: l.commit}
	var group sync.WaitGroup
	const putters, each = 16, 200
	for i := range putters {
		group.Go(func() {
			for k := range each {
				if err := b.Put(t.Context(), Pair{string(rune('a' + (i+k)%6)), "v"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.Wait()
	for _, txn := range l.txns {
		keys := make(map[string]bool)
		for _, p := range txn {
			keys[p.Key] = true
		}
		if len(keys) != len(txn) || len(txn) == 0 || len(txn) > 4 {
			t.Fatalf("transaction %v", txn)
		}
	}
}

func TestBatchingOfARealCluster(t *testing.T) {
	needServer(t)
	result, err := Batching(t.Context(), BatchingOptions{
		Harness: HarnessOptions{
			Unlimited: true,
			Members:   1,
			Conns:     2,
		}, Load: smallLoad, Sizes: []int{1, 4}, Delays: []time.Duration{5 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Cells) != 7 {
		t.Errorf("%d cells", len(result.Cells))
	}
	for _, c := range result.Cells {
		if c.PerSecond <= 0 || c.Errors != 0 || c.Size == 1 && c.Replaced != 0 ||
			c.Series == SeriesDally && c.Replaced <= 0 {
			t.Errorf("%+v", c)
		}
	}
}
