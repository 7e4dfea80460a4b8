package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// writer puts increasing numbers under its key.
type writer struct {
	key   string
	acked map[int64]string // revision to value
	maybe map[string]bool  // values of writes whose outcome is unknown
}

// writeOnce puts until a write is acknowledged.
func (w *writer) writeOnce(t *testing.T, c *clientv3.Client) {
	stop, acked := make(chan struct{}), new(atomic.Int64)
	var writing sync.WaitGroup
	writing.Go(func() { w.write(t, c, stop, acked) })
	defer writing.Wait()
	defer close(stop)
	eventually(t, "an acknowledged write", func() bool { return acked.Load() > 0 })
}

// eventually waits until something holds, and ends the test if it does not in two minutes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !holds(); pause(t.Context(), nil, time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within two minutes", what)
		}
	}
}

// write puts until stop is closed, or the test has failed. It never cancels a write: that could take effect later.
func (w *writer) write(t *testing.T, c *clientv3.Client, stop <-chan struct{}, acked *atomic.Int64) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-t.Context().Done():
			return
		default:
		}
		value := fmt.Sprintf("%s-%d", w.key, i)
		a, err := c.Put(context.Background(), w.key, value)
		if err != nil {
			w.maybe[value] = true
			continue
		}
		if before, ok := w.acked[a.Header.Revision]; ok {
			t.Errorf("revision %d answers two writes: %s and %s", a.Header.Revision, before, value)
		}
		w.acked[a.Header.Revision] = value
		acked.Add(1)
	}
}

// collect receives a watch's events until that of the last revision.
func collect(t *testing.T, events clientv3.WatchChan, last <-chan int64) map[int64]*mvccpb.KeyValue {
	seen, at, end := make(map[int64]*mvccpb.KeyValue), int64(0), int64(-1)
	for end < 0 || at < end {
		select {
		case end = <-last:
		case r, ok := <-events:
			if !ok || r.Err() != nil {
				t.Errorf("the watcher ended at revision %d: %v", at, r.Err())
				return seen
			}
			for _, e := range r.Events {
				if e.Kv.ModRevision <= at {
					t.Errorf("an event of revision %d follows one of %d", e.Kv.ModRevision, at)
				}
				at = e.Kv.ModRevision
				seen[at] = e.Kv
			}
		}
	}
	return seen
}

// Two active gateways are killed in turn under writers and watchers. No acknowledged write is lost, and every watcher,
// also one of a killed gateway, sees each write once and in order.
func TestTakeover(t *testing.T) {
	const writers, kills, between = 4, 2, 200
	cluster := startChain(t)
	var gateways []*gateway
	for range kills + 1 {
		gateways = append(gateways, start(t, cluster, Options{LockTTL: DefaultLockTTL}))
	}
	var addresses []string
	for _, g := range gateways {
		addresses = append(addresses, g.address)
	}
	c := open(t, addresses...)
	first := again(func() (*clientv3.PutResponse, error) { return c.Put(t.Context(), "first", "") })(t).Header.Revision
	var watching sync.WaitGroup
	lasts, seen := make([]chan int64, len(gateways)), make([]map[int64]*mvccpb.KeyValue, len(gateways))
	for i := range gateways {
		lasts[i] = make(chan int64, 1)
		// Any gateway may survive: on a busy machine the lock also moves without a kill.
		c := open(t, addresses...)
		events := c.Watch(t.Context(), "w", clientv3.WithPrefix(), clientv3.WithRev(first+1))
		watching.Go(func() { seen[i] = collect(t, events, lasts[i]) })
	}
	stop, acked := make(chan struct{}), new(atomic.Int64)
	var writing sync.WaitGroup
	all := make([]*writer, writers)
	for i := range all {
		all[i] = &writer{key: fmt.Sprintf("w%d", i), acked: make(map[int64]string), maybe: make(map[string]bool)}
		c := open(t, addresses...)
		writing.Go(func() { all[i].write(t, c, stop, acked) })
	}
	wait := func(n int64) {
		eventually(t, fmt.Sprint(n, " acknowledged writes"), func() bool { return acked.Load() >= n })
	}
	for range kills {
		wait(acked.Load() + between)
		active := waitAny(t, gateways)
		t.Logf("%s is killed after %d acknowledged writes", active.address, acked.Load())
		active.kill()
	}
	wait(acked.Load() + between)
	close(stop)
	writing.Wait()
	last := &writer{key: "wz", acked: make(map[int64]string), maybe: make(map[string]bool)}
	last.writeOnce(t, c)
	all = append(all, last)
	var end int64
	for revision := range last.acked {
		end = max(end, revision)
	}
	for _, last := range lasts {
		last <- end
	}
	watching.Wait()
	for i := range seen {
		compare(t, all, seen[i], first, end)
	}
}

// waitAny returns the gateway that is active, as soon as there is one.
func waitAny(t *testing.T, gateways []*gateway) *gateway {
	t.Helper()
	var active *gateway
	eventually(t, "an active gateway", func() bool {
		at := slices.IndexFunc(gateways, func(g *gateway) bool {
			l := g.where().lead
			return l != nil && l.isActive()
		})
		if at >= 0 {
			active = gateways[at]
		}
		return at >= 0
	})
	return active
}

// compare checks a watcher's events against the writers' records.
func compare(t *testing.T, all []*writer, seen map[int64]*mvccpb.KeyValue, first, end int64) {
	t.Helper()
	for revision := first + 1; revision <= end; revision++ {
		if seen[revision] == nil {
			t.Errorf("no event has revision %d", revision)
		}
	}
	values := make(map[string]bool)
	for revision, kv := range seen {
		value := string(kv.Value)
		if values[value] {
			t.Errorf("%s was written twice", value)
		}
		values[value] = true
		known := false
		for _, w := range all {
			known = known || w.acked[revision] == value || w.maybe[value]
			if acked, ok := w.acked[revision]; ok && acked != value {
				t.Errorf("revision %d was acknowledged for %s, and the event has %s", revision, acked, value)
			}
		}
		if !known {
			t.Errorf("nobody has written %s, which the event of revision %d has", value, revision)
		}
	}
	for _, w := range all {
		for revision, value := range w.acked {
			if seen[revision] == nil || string(seen[revision].Value) != value {
				t.Errorf("%s was acknowledged at revision %d and is lost", value, revision)
			}
		}
	}
}

// A gateway that reads more slowly than the log is overwritten continues from the snapshot.
func TestFollowerBehindTheRing(t *testing.T) {
	cluster := startChain(t)
	o := Options{LogEntries: 64}
	a := start(t, cluster, o)
	a.waitActive(t)
	c := open(t, a.address)
	lease := must(c.Grant(t.Context(), 3600))(t)
	var last int64
	for i := range 500 {
		key := fmt.Sprintf("k%d", i%50)
		last = must(c.Put(t.Context(), key, fmt.Sprint(i), clientv3.WithLease(lease.ID)))(t).Header.Revision
	}
	must(c.Delete(t.Context(), "k7"))(t)
	b := start(t, cluster, o) // begins with the first entry, which is overwritten
	cb := open(t, b.address)
	want := must(c.Get(t.Context(), "k", clientv3.WithPrefix()))(t)
	got := must(cb.Get(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithSerializable()))(t)
	for got.Header.Revision <= last {
		got = must(cb.Get(t.Context(), "k", clientv3.WithPrefix(), clientv3.WithSerializable()))(t)
	}
	if len(got.Kvs) != 49 || len(want.Kvs) != 49 {
		t.Fatalf("%d keys, and %d at the active gateway", len(got.Kvs), len(want.Kvs))
	}
	for i := range got.Kvs {
		if got.Kvs[i].String() != want.Kvs[i].String() {
			t.Errorf("%v, and at the active gateway %v", got.Kvs[i], want.Kvs[i])
		}
	}
	a.stop()
	p := must(cb.Put(t.Context(), "k7", "new"))(t)
	if p.Header.Revision != last+2 {
		t.Errorf("the first revision after the takeover is %d, and the last before was %d", p.Header.Revision, last+1)
	}
	must(cb.Revoke(t.Context(), lease.ID))(t)
	if r := must(cb.Get(t.Context(), "k", clientv3.WithPrefix()))(t); len(r.Kvs) != 1 {
		t.Errorf("%d keys are left after the lease was revoked: want the one without it", len(r.Kvs))
	}
}

// A linearizable read waits for the batches that were under way when it began: watchers at other gateways may have seen
// them.
func TestReadWaitsForBatches(t *testing.T) {
	a := start(t, startChain(t), Options{})
	a.waitActive(t)
	c := open(t, a.address)
	must(c.Put(t.Context(), "k", "1"))(t)
	l := a.where().lead
	l.barrier.begin()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r, err := c.Get(ctx, "k"); err == nil {
		t.Errorf("read %v before the batch was applied", r.Kvs)
	}
	must(c.Get(t.Context(), "k", clientv3.WithSerializable()))(t)
	l.barrier.end()
	must(c.Get(t.Context(), "k"))(t)
}

// A request of many entries, and one that is too large.
func TestLargeRequests(t *testing.T) {
	a := start(t, startChain(t), Options{LogEntries: 4096})
	a.waitActive(t)
	c := open(t, a.address)
	value := make([]byte, 1<<20)
	for i := range value {
		value[i] = byte(i * i >> 7)
	}
	must(c.Put(t.Context(), "k", string(value)))(t)
	if r := must(c.Get(t.Context(), "k"))(t); string(r.Kvs[0].Value) != string(value) {
		t.Error("another value was read")
	}
	if _, err := c.Put(t.Context(), "k", string(make([]byte, 1_600_000))); err == nil {
		t.Error("a request beyond the limit was taken")
	}
}

// A gateway whose lock was lost answers no linearizable read and gets no write acknowledged.
func TestDeposed(t *testing.T) {
	cluster := startChain(t)
	o := Options{LockTTL: DefaultLockTTL}
	a := start(t, cluster, o)
	l := a.waitActive(t)
	b := start(t, cluster, o)
	c := open(t, a.address, b.address)
	put := func(value string) {
		again(func() (*clientv3.PutResponse, error) { return c.Put(t.Context(), "k", value) })(t)
	}
	put("1")
	// The lock's record goes: the next renewal fails, and another gateway, or this one, takes the lock.
	must(b.chain.Delete(t.Context(), "lock:"+a.lockName()))(t)
	<-l.ctx.Done()
	put("2")
	if l.isActive() {
		t.Error("a deposed gateway believes that it is active")
	}
	command := &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("k"), Value: []byte("late")}}
	if _, err := l.propose(t.Context(), command); !errors.Is(err, errNotActive) {
		t.Errorf("a deposed gateway took a command: %v", err)
	}
	r := again(func() (*clientv3.GetResponse, error) { return c.Get(t.Context(), "k") })(t)
	if string(r.Kvs[0].Value) != "2" {
		t.Errorf("after the takeover: %v", r)
	}
}

// A keyspace that replaces a lost one has later revisions. So a client that watches from the revision it knows is told
// that this is compacted: at an earlier revision than its own it would wait, and believe that nothing changes.
func TestRevisionsAfterLoss(t *testing.T) {
	var last int64
	for range 2 {
		a := start(t, startChain(t), Options{}) // another chain each time: the first one's state is lost
		a.waitActive(t)
		c := open(t, a.address)
		if last > 0 {
			if r := <-c.Watch(t.Context(), "k", clientv3.WithRev(last+1)); r.CompactRevision <= last {
				t.Errorf("a watch after revision %d of the lost keyspace: %+v", last, r)
			}
		}
		next := must(c.Put(t.Context(), "k", ""))(t).Header.Revision
		if next <= last {
			t.Errorf("the revision %d of the new keyspace follows %d of the lost one", next, last)
		}
		last = next
	}
	as := start(t, startChain(t), Options{FirstRevision: 1})
	as.waitActive(t)
	if r := must(open(t, as.address).Put(t.Context(), "k", ""))(t); r.Header.Revision != 2 {
		t.Errorf("the first change after revision 1, as in a new etcd, has revision %d", r.Header.Revision)
	}
}

// TestReadsOutliveTheActiveGateway: reads that are under way at the active gateway when it is gone are made again at the
// next one.
func TestReadsOutliveTheActiveGateway(t *testing.T) {
	cluster := startChain(t)
	a := start(t, cluster, Options{})
	a.waitActive(t)
	b := start(t, cluster, Options{})
	must(open(t, b.address).Put(t.Context(), "k", "v"))(t)
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := pb.NewKVClient(conn) // etcd's client would repeat the reads itself
	const readers, more = 32, 5
	var before, after sync.WaitGroup
	before.Add(readers)
	gone := make(chan struct{})
	for range readers {
		after.Go(func() {
			read := func() {
				r, err := c.Range(t.Context(), &pb.RangeRequest{Key: []byte("k")})
				for errors.Is(rpctypes.Error(err), rpctypes.ErrNoLeader) { // no gateway was active for seconds
					r, err = c.Range(t.Context(), &pb.RangeRequest{Key: []byte("k")})
				}
				if err != nil || len(r.GetKvs()) != 1 {
					t.Errorf("%v, %v", r, err)
				}
			}
			read()
			before.Done()
			for left := more; left > 0; {
				read()
				select {
				case <-gone:
					left--
				default:
				}
			}
		})
	}
	before.Wait()
	a.kill()
	close(gone)
	after.Wait()
}
