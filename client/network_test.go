package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/wire"
)

// badNetwork loses a fifth of all messages and repeats a fifth, at any moment of the next 20 ms; delays reorder.
var badNetwork = faults{loss: 0.2, duplicate: 0.2, delay: 0.2, longest: 20 * time.Millisecond}

// Every ADD counts exactly once, also if its messages are lost, repeated or delayed.
func TestExactlyOnce(t *testing.T) {
	const workers, each = 4, 25
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(badNetwork)
	resync(t, w.planes)
	c, ctx := newClient(t, Options{Cluster: w.cluster, Attempt: 5 * time.Millisecond}), soon(t)

	var mu sync.Mutex
	seen := map[int64]bool{}
	count := func(r Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		n, ok := r.Counter()
		if err != nil || !ok || seen[n] {
			t.Errorf("add: %+v, %v", r, err)
		}
		seen[n] = true
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for range each {
				count(c.Add(ctx, "counter", 1))
			}
		})
	}
	adds := make([]Op, workers*each)
	for i := range adds {
		adds[i] = AddOp("counter", 1)
	}
	for _, o := range c.Do(ctx, adds) {
		count(o.Result, o.Err)
	}
	group.Wait()
	r, err := c.Get(ctx, "counter")
	if n, ok := r.Counter(); err != nil || !ok || n != 2*workers*each {
		t.Fatalf("%d additions of 1 gave %d: %v", 2*workers*each, n, err)
	}
}

// A reader never sees a writer's values go backwards, wherever it reads.
func TestMonotonicReads(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(badNetwork)
	resync(t, w.planes)
	c := newClient(t, Options{Cluster: w.cluster, Attempt: 5 * time.Millisecond, ReadFrom: Spread})
	ctx := soon(t)
	if _, err := c.Put(ctx, "k", []byte("0")); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		for i := range 50 {
			if _, err := c.Put(ctx, "k", fmt.Append(nil, i+1)); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	for last, reading := uint64(0), true; reading; {
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			reading = false
		default:
		}
		r, err := c.Get(ctx, "k")
		if err != nil || r.Version < last || string(r.Value) != fmt.Sprint(r.Version-1) {
			t.Fatalf("read %q of version %d after version %d: %v", r.Value, r.Version, last, err)
		}
		last = r.Version
		if !reading && last != 51 {
			t.Fatalf("the last version read is %d", last)
		}
	}
}

// Copies of a write that arrive after later writes change nothing.
func TestDelayedDuplicates(t *testing.T) {
	w := newNetwork(t, 3, testNodeOptions(1))
	w.set(faults{keep: true})
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	for i := range int64(10) {
		r, err := c.Add(ctx, "counter", 1)
		if n, ok := r.Counter(); err != nil || !ok || n != i+1 {
			t.Fatalf("add: %+v, %v", r, err)
		}
		w.replay()
	}
	w.replay()
	// The next write goes the same way behind the copies.
	r, err := c.Add(ctx, "counter", 0)
	if n, ok := r.Counter(); err != nil || !ok || n != 10 {
		t.Fatalf("10 additions of 1 gave %+v, %v", r, err)
	}
}

func TestOutcomeUnknown(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	w.set(faults{down: true, keep: true})
	c := newClient(t, Options{Cluster: w.cluster, Attempt: 10 * time.Millisecond, Timeout: 50 * time.Millisecond})
	ctx := context.Background()

	_, err := c.Add(ctx, "counter", 1)
	if unknown := new(OutcomeUnknownError); !errors.As(err, &unknown) || !errors.Is(err, ErrTimeout) {
		t.Fatalf("add: %v", err)
	}
	if o := c.Do(ctx, []Op{PutOp("k", nil)})[0]; !errors.Is(o.Err, ErrOutcomeUnknown) {
		t.Fatalf("put in a batch: %v", o.Err)
	}
	if _, err = c.Get(ctx, "counter"); !errors.Is(err, ErrTimeout) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("get: %v", err)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v is no exceeded deadline", err)
	}
	if len(c.sessions.idle) != 0 {
		t.Fatal("a session would be used again")
	}

	// The lost write may happen later, once, and a new one does not disturb it.
	w.set(faults{})
	w.replay()
	w.replay()
	r, err := c.Add(soon(t), "counter", 10)
	if n, _ := r.Counter(); err != nil || n != 11 {
		t.Fatalf("add: %d, %v", n, err)
	}
}

func TestCancel(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	c := newClient(t, Options{Cluster: w.cluster, Attempt: time.Hour, Timeout: time.Hour})
	for name, do := range map[string]func(context.Context) error{
		"alone":      func(ctx context.Context) error { _, err := c.Put(ctx, "k", nil); return err },
		"in a batch": func(ctx context.Context) error { return c.Do(ctx, []Op{PutOp("k", nil)})[0].Err },
	} {
		ctx, cancel := context.WithCancel(context.Background())
		w.set(faults{down: true, forge: func([]byte, netip.AddrPort) { cancel() }}) // once the request is on its way
		if err := do(ctx); !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Another operation on the same socket is not disturbed.
	w.set(faults{})
	if _, err := c.Put(soon(t), "k", nil); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	w.set(faults{down: true})
	c := newClient(t, Options{Cluster: w.cluster, Attempt: time.Hour, Timeout: time.Hour})
	errs := make(chan error)
	go func() { _, err := c.Get(context.Background(), "k"); errs <- err }()
	go func() { errs <- c.Do(context.Background(), []Op{GetOp("k")})[0].Err }()
	time.AfterFunc(10*time.Millisecond, func() { c.Close() })
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := c.Get(context.Background(), "k"); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := c.Do(context.Background(), []Op{GetOp("k")})[0].Err; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// An answer from outside the chain, or to another request, does not count.
func TestForgedAnswers(t *testing.T) {
	w := newNetwork(t, 2, testNodeOptions(1))
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	if _, err := c.Put(ctx, "k", []byte("true")); err != nil {
		t.Fatal(err)
	}
	stranger := w.listen(t)
	defer stranger.Close()
	w.set(faults{forge: func(message []byte, client netip.AddrPort) {
		var m wire.Message
		if wire.Decode(message, &m) != wire.Accepted {
			t.Error("a client sent a message that no node takes")
		}
		reply := wire.Message{Op: wire.OpReply, Shard: m.Shard, Epoch: 1, Request: m.Request, Key: m.Key, Version: 9,
			Value: []byte("false")}
		send := func(from *net.UDPConn, m wire.Message) {
			if _, err := from.WriteToUDPAddrPort(m.Append(nil), client); err != nil {
				t.Error(err)
			}
		}
		send(stranger, reply)
		other := reply
		other.Request++
		send(w.fronts[0], other)
		other = reply
		other.Key.Lo++
		send(w.fronts[0], other)
		damaged := reply.Append(nil)
		damaged[len(damaged)-1]++
		if _, err := w.fronts[0].WriteToUDPAddrPort(damaged, client); err != nil {
			t.Error(err)
		}
	}})
	r, err := c.Get(ctx, "k")
	if err != nil || string(r.Value) != "true" {
		t.Errorf("alone: %+v, %v", r, err)
	}
	for range 10 {
		if o := c.Do(ctx, []Op{GetOp("k")})[0]; o.Err != nil || string(o.Value) != "true" {
			t.Errorf("in a batch: %+v", o)
		}
	}
}

// A read turns to another node when one is gone; a read of a named node does not.
func TestReadFailover(t *testing.T) {
	nodes := startCluster(t, 3, 1)
	c := newClient(t, Options{Cluster: nodes.cluster, Attempt: 5 * time.Millisecond, Timeout: time.Minute})
	ctx := soon(t)
	if _, err := c.Put(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	nodes.planes[1].Close()
	for _, from := range []ReadFrom{Nearest, Spread, Tail} {
		for range 10 {
			if r, err := c.Get(ctx, "k", From(from)); err != nil || r.Node == "n2" {
				t.Fatalf("%v: %+v, %v", from, r, err)
			}
		}
	}
	short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
	defer cancel()
	if r, err := c.Get(short, "k", From(Named("n2"))); !errors.Is(err, ErrTimeout) {
		t.Fatalf("from a node that is gone: %+v, %v", r, err)
	}
}

// A frozen head answers BUSY: the write ends with both reasons, and is done once the head thaws.
func TestBusy(t *testing.T) {
	nodes := startCluster(t, 2, 1)
	config, err := nodes.planes[0].Config(0)
	if err != nil {
		t.Fatal(err)
	}
	set := func(s chain.State) {
		config.State = s
		if err := nodes.planes[0].ConfigureAll(map[uint16]chain.ShardConfig{0: config}); err != nil {
			t.Error(err)
		}
	}
	set(chain.Frozen)
	c := newClient(t, Options{Cluster: nodes.cluster, Timeout: 30 * time.Millisecond})
	_, err = c.Put(context.Background(), "k", nil)
	if !errors.Is(err, ErrBusy) || !errors.Is(err, ErrOutcomeUnknown) || !errors.Is(err, ErrTimeout) {
		t.Fatalf("put: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { set(chain.Active) })
	r, err := c.Put(soon(t), "k", nil)
	if err != nil || r.Version != 1 || r.Attempts < 2 {
		t.Fatalf("put: %+v, %v", r, err)
	}
}

// TestFullIsCertain: after a refusal for want of an object or of a session the outcome is known, and a client whose new
// session was refused goes on with another one as soon as there is room.
func TestFullIsCertain(t *testing.T) {
	o := testNodeOptions(1)
	o.MaxObjects = 1
	w := newNetwork(t, 2, o)
	c, ctx := newClient(t, Options{Cluster: w.cluster}), soon(t)
	if _, err := c.Put(ctx, "one", nil); err != nil {
		t.Fatal(err)
	}
	_, err := c.Put(ctx, "two", nil)
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	for _, advice := range []string{"deleted keys keep their places", "netcraq backup", "--remove", "more --objects", "netcraq restore"} {
		if !strings.Contains(err.Error(), advice) {
			t.Errorf("%v does not say %q", err, advice)
		}
	}
	if _, err := c.Put(ctx, "one", nil); err != nil { // in the same session
		t.Fatal(err)
	}
	o.MaxSessions = 1
	w = newNetwork(t, 2, o)
	one, other := newClient(t, Options{Cluster: w.cluster}), newClient(t, Options{Cluster: w.cluster})
	if _, err := one.Put(ctx, "one", nil); err != nil {
		t.Fatal(err)
	}
	_, err = other.Put(ctx, "one", []byte("refused"))
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "more --sessions") || strings.Contains(err.Error(), "--objects") {
		t.Errorf("for want of a session: %v", err)
	}
	for _, p := range w.planes {
		forgetSessions(t, p)
	}
	if _, err := other.Put(ctx, "one", []byte("taken")); err != nil && !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
}

// forgetSessions empties the table of session entries.
func forgetSessions(t *testing.T, p dataplane.Plane) {
	t.Helper()
	seqs := make(map[chain.SessionKey]uint64)
	err := p.Sessions(func(k chain.SessionKey, s chain.Session) bool { seqs[k] = s.Seq; return true })
	for k, seq := range seqs {
		err = errors.Join(err, p.DropSession(k, seq))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lateContext has a deadline in the past of which it does not know yet, as happens on a busy machine.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// Nothing is sent after the deadline, so that the outcome of a write is not in doubt.
func TestPastDeadline(t *testing.T) {
	c := newClient(t, Options{Cluster: startCluster(t, 1, 1).cluster})
	if _, err := c.Put(lateContext{context.Background()}, "k", nil); !errors.Is(err, ErrTimeout) ||
		errors.Is(err, ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}
