package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

func TestOperations(t *testing.T) {
	nodes := startCluster(t, 3, 4)
	c, ctx := newClient(t, patient(nodes.cluster)), soon(t)

	r, err := c.Get(ctx, "k")
	if !errors.Is(err, ErrNotFound) || r.Version != 0 || r.Node == "" {
		t.Fatalf("get of nothing: %+v, %v", r, err)
	}
	r, err = c.Put(ctx, "k", []byte("one"))
	if err != nil || r.Version != 1 || r.Node != "n3" || r.Asked != "n1" || r.Hops != 4 || !r.Tail {
		t.Fatalf("put: %+v, %v", r, err)
	}
	r, err = c.Get(ctx, "k", From(Tail))
	if err != nil || string(r.Value) != "one" || r.Version != 1 || r.Node != "n3" || r.Hops != 2 {
		t.Fatalf("get: %+v, %v", r, err)
	}
	r, err = c.CAS(ctx, "k", 1, []byte("two"))
	if err != nil || r.Version != 2 {
		t.Fatalf("cas: %+v, %v", r, err)
	}
	_, err = c.CAS(ctx, "k", 1, []byte("three"))
	var failed *CASFailedError
	if !errors.As(err, &failed) || !errors.Is(err, ErrCASFailed) || failed.Version != 2 || string(failed.Value) != "two" {
		t.Fatalf("cas with an old version: %v", err)
	}
	r, err = c.Delete(ctx, "k")
	if err != nil || r.Version != 3 {
		t.Fatalf("delete: %+v, %v", r, err)
	}
	r, err = c.Get(ctx, "k", From(Named("n2")))
	if !errors.Is(err, ErrNotFound) || r.Version != 3 {
		t.Fatalf("get after delete: %+v, %v", r, err)
	}
	if _, err = c.CAS(ctx, "k", 0, []byte("again")); err != nil {
		t.Fatalf("cas of a deleted key: %v", err)
	}
	for want := range int64(3) {
		r, err = c.Add(ctx, "counter", -1)
		if n, ok := r.Counter(); err != nil || !ok || n != -want-1 {
			t.Fatalf("add: %+v, %v", r, err)
		}
	}
	if _, err = c.Add(ctx, "k", 1); !errors.Is(err, ErrNotCounter) {
		t.Fatalf("add to a word: %v", err)
	}
	for shard, idle := range c.sessions.idle {
		if len(idle) != 1 {
			t.Fatalf("one writer used %d sessions in shard %d", len(idle), shard)
		}
	}
}

func TestArguments(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, test := range []struct {
		name string
		op   Op
		ctx  context.Context
		want error
	}{
		{"no key", GetOp(""), ctx, ErrBadRequest},
		{"long key", GetOp(strings.Repeat("k", wire.MaxKeyBytes+1)), ctx, ErrBadRequest},
		{"value no packet holds", PutOp("k", make([]byte, wire.MaxValueBytes+1)), ctx, ErrTooLarge},
		{"value no cell holds", PutOp("k", make([]byte, 1025)), ctx, ErrTooLarge},
		{"bound", GetOp("k", Bounded(time.Hour)), ctx, ErrBadRequest},
		{"negative bound", GetOp("k", Bounded(-1)), ctx, ErrBadRequest},
		{"unknown node", GetOp("k", From(Named("n9"))), ctx, ErrBadRequest},
		{"cancelled", PutOp("k", nil), cancelled, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := c.run(test.ctx, &test.op)
			if !errors.Is(err, test.want) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("alone: %v", err)
			}
			err = c.Do(test.ctx, []Op{test.op})[0].Err
			if !errors.Is(err, test.want) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("in a batch: %v", err)
			}
		})
	}
	r, err := c.Put(ctx, "k", make([]byte, 1024))
	if err != nil || r.Version != 1 {
		t.Fatalf("the longest value: %+v, %v", r, err)
	}
	if r, err = c.Get(ctx, "k"); err != nil || !bytes.Equal(r.Value, make([]byte, 1024)) {
		t.Fatalf("the longest value: %+v, %v", r, err)
	}
}

func TestOptions(t *testing.T) {
	cluster := startCluster(t, 1, 1).cluster
	for name, o := range map[string]Options{
		"no cluster":     {},
		"attempt":        {Cluster: cluster, Attempt: -1},
		"timeout":        {Cluster: cluster, Timeout: -1},
		"window":         {Cluster: cluster, Window: maxWindow + 1},
		"broken cluster": {Cluster: &Cluster{}},
		"unknown node":   {Cluster: cluster, ReadFrom: Named("nobody")},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A dirty object is read at the tail, unless the reader accepts uncommitted versions.
func TestDirtyRead(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	c, ctx := newClient(t, patient(nodes.cluster)), soon(t)
	if _, err := c.Put(ctx, "k", []byte("old")); err != nil {
		t.Fatal(err)
	}
	makeDirty(t, nodes, "k", "new")

	r, err := c.Get(ctx, "k", From(Named("n2")))
	if err != nil || string(r.Value) != "old" || r.Asked != "n2" || r.Node != "n3" || r.Hops != 3 || !r.Tail {
		t.Fatalf("linearizable: %+v, %v", r, err)
	}
	for _, relaxed := range []ReadOption{Any(), Bounded(time.Second)} {
		r, err = c.Get(ctx, "k", From(Named("n2")), relaxed)
		if err != nil || string(r.Value) != "new" || r.Node != "n2" || !r.Dirty || r.Hops != 2 {
			t.Fatalf("relaxed: %+v, %v", r, err)
		}
	}
}

// makeDirty gives every node but the tail an update.
func makeDirty(t *testing.T, nodes *testCluster, key, value string) {
	t.Helper()
	last := len(nodes.planes) - 1
	config, err := nodes.planes[last].Config(0)
	if err != nil {
		t.Fatal(err)
	}
	config.State = chain.Frozen // it answers reads, but takes no updates
	if err := nodes.planes[last].ConfigureAll(map[uint16]chain.ShardConfig{0: config}); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Cluster: nodes.cluster, Attempt: 10 * time.Millisecond, Timeout: 100 * time.Millisecond})
	if _, err := c.Put(context.Background(), key, []byte(value)); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("put through a frozen tail: %v", err)
	}
	if len(c.sessions.idle) != 0 {
		t.Fatal("the session of a write with an unknown outcome would be used again")
	}
}

func TestBatch(t *testing.T) {
	nodes := startCluster(t, 3, 8)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster, Window: 64, ReadFrom: Spread}), soon(t)
	var puts []Op
	var keys []string
	for i := range 1000 {
		key := fmt.Sprintf("key %d", i)
		keys = append(keys, key)
		puts = append(puts, PutOp(key, []byte(key)))
	}
	for i, o := range c.Do(ctx, puts) {
		if o.Err != nil || o.Version != 1 {
			t.Fatalf("put %d: %+v", i, o)
		}
	}
	for i, o := range c.GetMany(ctx, append(keys, "nothing")) {
		switch {
		case i == len(keys) && !errors.Is(o.Err, ErrNotFound):
			t.Fatalf("get of nothing: %+v", o)
		case i < len(keys) && (o.Err != nil || string(o.Value) != keys[i]):
			t.Fatalf("get %d: %+v", i, o)
		}
	}
	if len(c.Do(ctx, nil)) != 0 {
		t.Fatal("nothing done has outcomes")
	}
	if free := len(c.pipes.all[0].free); free != 64 {
		t.Fatalf("%d slots free of 64", free)
	}
}

// Counters in a batch meet each other's dirty objects: BUSY is repeated, and every ADD counts once.
func TestBatchOfOneCounter(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	adds := make([]Op, 200)
	for i := range adds {
		adds[i] = AddOp("counter", 1)
	}
	seen := map[int64]bool{}
	for i, o := range c.Do(ctx, adds) {
		n, ok := o.Counter()
		if o.Err != nil || !ok || seen[n] {
			t.Fatalf("add %d: %+v", i, o)
		}
		seen[n] = true
	}
	if len(seen) != 200 || !seen[1] || !seen[200] {
		t.Fatalf("%d results", len(seen))
	}
}

// More callers at once than CPUs share a pipeline, and datagrams.
func TestManyCallers(t *testing.T) {
	const callers = 200
	nodes := startCluster(t, 3, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			key := fmt.Sprint("key ", i)
			for n := range 20 {
				put, err := c.Put(ctx, key, fmt.Append(nil, n))
				if err != nil {
					t.Errorf("put %s: %v", key, err)
				}
				got, err := c.Get(ctx, key)
				if err != nil || got.Version != put.Version || string(got.Value) != fmt.Sprint(n) {
					t.Errorf("get %s: %+v, %v", key, got, err)
				}
			}
		})
	}
	group.Wait()
	if n := len(c.sockets.all); n > int(c.sockets.most) {
		t.Errorf("%d sockets", n)
	}
	if at := c.Traffic(); at.Bundles == 0 || at.Bundled < 2*at.Bundles {
		t.Errorf("%+v", at)
	}
	if n := len(c.sessions.idle); n > callers {
		t.Errorf("%d sessions for %d callers", n, callers)
	}
}

func TestStart(t *testing.T) {
	nodes := startCluster(t, 1, 1)
	c, ctx := newClient(t, Options{Cluster: nodes.cluster}), soon(t)
	ends := make(chan error, 3)
	ended := func(_ Result, err error) { ends <- err }
	c.Start(ctx, PutOp("k", nil), ended)
	c.Start(ctx, GetOp(""), ended)
	if one, other := <-ends, <-ends; errors.Is(one, ErrBadRequest) == errors.Is(other, ErrBadRequest) {
		t.Errorf("%v and %v", one, other)
	}
	c.Close()
	c.Start(ctx, GetOp("k"), ended)
	if err := <-ends; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
