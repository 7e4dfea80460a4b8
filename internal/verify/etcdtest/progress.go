package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Progress tests what a server tells streams of watches about their progress. Clients watch at one address and write at
// another, which may be the same.
func Progress(t *testing.T, watches, writes string) {
	w, kv := connect(t, watches), pb.NewKVClient(connect(t, writes).ActiveConnection())
	t.Run("goes on", func(t *testing.T) { progressGoesOn(t, w, kv) })
	t.Run("only on request", func(t *testing.T) { progressOnlyOnRequest(t, w, kv) })
	for seed := range uint64(3) {
		t.Run(fmt.Sprintf("follows events, seed %d", seed), func(t *testing.T) { progressFollowsEvents(t, w, kv, seed) })
	}
}

func connect(t *testing.T, address string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// watchStream is a stream of watches.
type watchStream struct {
	t    *testing.T
	send sync.Mutex
	pb.Watch_WatchClient
	answers chan *pb.WatchResponse // closed at the end of the stream
}

func openWatches(t *testing.T, c *clientv3.Client) *watchStream {
	t.Helper()
	s, err := pb.NewWatchClient(c.ActiveConnection()).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &watchStream{t: t, Watch_WatchClient: s, answers: make(chan *pb.WatchResponse, 100)}
	go func() {
		defer close(w.answers)
		for {
			a, err := s.Recv()
			if err != nil {
				if !errors.Is(t.Context().Err(), context.Canceled) {
					t.Errorf("the stream of watches ended: %v", err)
				}
				return
			}
			select {
			case w.answers <- a:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return w
}

func (w *watchStream) request(r *pb.WatchRequest) {
	w.send.Lock()
	defer w.send.Unlock()
	if err := w.Send(r); err != nil {
		w.t.Errorf("send a request of watches: %v", err)
	}
}

func (w *watchStream) requestProgress() {
	w.request(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

func (w *watchStream) create(c *pb.WatchCreateRequest) {
	w.request(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: c}})
}

// next returns the next answer; nil: there is none within a time.
func (w *watchStream) next(within time.Duration) *pb.WatchResponse {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case a, ok := <-w.answers:
		if !ok {
			w.t.Fatal("the stream of watches has ended")
		}
		return a
	case <-late.C:
		return nil
	}
}

// isProgress reports whether an answer is progress of the whole stream.
func isProgress(a *pb.WatchResponse) bool {
	return a.WatchId == -1 && !a.Created && !a.Canceled && len(a.Events) == 0
}

func put(t *testing.T, kv pb.KVClient, key string) int64 {
	t.Helper()
	a, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("v")})
	if err != nil {
		t.Fatal(err)
	}
	return a.Header.Revision
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// progressGoesOn expects that a client which requests progress is told of later revisions too, without a request.
func progressGoesOn(t *testing.T, c *clientv3.Client, kv pb.KVClient) {
	w := openWatches(t, c)
	w.create(&pb.WatchCreateRequest{Key: []byte("other")})
	requests, writes, answers := 0, 0, 0
	var told int64
	for tries := 0; answers <= requests; tries++ {
		if tries == 20 {
			t.Fatalf("%d answers to %d requests for progress, and none after writes that followed", answers, requests)
		}
		w.requestProgress()
		requests++
		newest := put(t, kv, "unwatched")
		writes++
		for told < newest {
			a := w.next(time.Second) // a busy machine may take longer than the server goes on: another request then
			if a == nil {
				break
			}
			if !isProgress(a) {
				continue
			}
			if told > a.Header.Revision {
				t.Fatalf("progress of revision %d follows that of %d", a.Header.Revision, told)
			}
			told, answers = a.Header.Revision, answers+1
		}
	}
	if answers > requests+writes+1 {
		t.Errorf("%d answers to %d requests and %d writes", answers, requests, writes)
	}
}

// progressOnlyOnRequest expects that streams whose clients request no progress are told none.
func progressOnlyOnRequest(t *testing.T, c *clientv3.Client, kv pb.KVClient) {
	asks, silent := openWatches(t, c), openWatches(t, c)
	asks.create(&pb.WatchCreateRequest{Key: []byte("other")})
	for _, notify := range []bool{false, true} {
		silent.create(&pb.WatchCreateRequest{Key: []byte("end"), ProgressNotify: notify})
		if a := silent.next(patience); a == nil || !a.Created {
			t.Fatalf("%v", a)
		}
	}
	var told int64
	for range 100 {
		asks.requestProgress()
		told = put(t, kv, "unwatched")
	}
	for told > 0 {
		a := asks.next(100 * time.Millisecond)
		switch {
		case a == nil:
			asks.requestProgress()
		case isProgress(a) && a.Header.Revision >= told:
			told = 0
		}
	}
	put(t, kv, "end")
	for range 2 {
		if a := silent.next(patience); a == nil || len(a.Events) != 1 {
			t.Errorf("want the event, got %v", a)
		}
	}
}

// kept is one watch of a property test, and what it was told.
type kept struct {
	create        *pb.WatchCreateRequest
	told          int64 // no later event may have a revision up to this one
	events        map[int64]bool
	created, over bool
}

func (k *kept) covers(key []byte) bool {
	return bytes.Compare(key, k.create.Key) >= 0 && bytes.Compare(key, k.create.RangeEnd) < 0
}

const (
	progressKeys    = 30
	progressWatches = 60
	progressWriters = 4
	progressWrites  = 300 // of each writer
)

// progressFollowsEvents has writers write, and a client create and cancel watches on one stream, of the future and of
// the past, while it requests progress. Progress of a revision must follow all events up to it, of all watches, and
// nothing is missing.
func progressFollowsEvents(t *testing.T, c *clientv3.Client, kv pb.KVClient, seed uint64) {
	prefix := fmt.Sprintf("progress/%d/", seed)
	p := &progressTest{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), prefix: prefix, first: put(t, kv, prefix), w: openWatches(t, c),
		watches: make(map[int64]*kept),
	}
	var writers sync.WaitGroup
	written := p.write(kv, seed, &writers)
	done := make(chan struct{})
	go func() {
		writers.Wait()
		close(done)
	}()
	newest := int64(0) // revision when all writes had ended
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for newest == 0 || len(p.watches) < progressWatches || p.behind(newest) {
		select {
		case <-done:
			done, newest = nil, put(t, kv, prefix)
		case <-again.C:
			p.w.requestProgress()
		case a, ok := <-p.w.answers:
			if !ok {
				t.Fatal("the stream of watches has ended")
			}
			p.take(a)
		}
		p.create()
	}
	for id, k := range p.watches {
		for revision, key := range written {
			if !k.over && k.create.StartRevision > 0 && len(k.create.Filters) == 0 && k.covers([]byte(key)) && !k.events[revision] {
				t.Errorf("watch %d was told progress of revision %d, and not the event of %d", id, k.told, revision)
			}
		}
	}
}

// progressTest is one run of progressFollowsEvents.
type progressTest struct {
	t       *testing.T
	random  *rand.Rand
	prefix  string // of the keys
	first   int64  // revision before the writes
	w       *watchStream
	watches map[int64]*kept
}

// write has writers write. It returns the key that each revision wrote, or deleted, when they are done.
func (p *progressTest) write(kv pb.KVClient, seed uint64, writers *sync.WaitGroup) map[int64]string {
	written := make(map[int64]string)
	var mu sync.Mutex
	for i := range progressWriters {
		random := rand.New(rand.NewPCG(seed, uint64(2+i)))
		writers.Go(func() {
			for range progressWrites {
				key := fmt.Sprintf("%s%02d", p.prefix, random.IntN(progressKeys))
				revision, err := write(p.t.Context(), kv, []byte(key), random.IntN(5) == 0)
				switch {
				case err != nil:
					p.t.Errorf("write: %v", err)
					return
				case revision == 0:
					continue
				}
				mu.Lock()
				written[revision] = key
				mu.Unlock()
			}
		})
	}
	return written
}

// take takes an answer.
func (p *progressTest) take(a *pb.WatchResponse) {
	switch k := p.watches[a.WatchId]; {
	case isProgress(a):
		for _, k := range p.watches {
			if k.created {
				k.told = a.Header.Revision
			}
		}
	case a.Created:
		k.created = true
	case a.CompactRevision != 0:
		p.t.Fatalf("%v", a)
	case a.Canceled:
		k.over = true
	default:
		k.take(p.t, a)
	}
}

// create creates a watch now and then, and cancels another one.
func (p *progressTest) create() {
	id := int64(len(p.watches) + 1)
	if id > progressWatches || p.random.IntN(8) > 0 {
		return
	}
	k := newWatch(p.random, p.prefix, id, p.first)
	p.watches[id] = k
	p.w.create(k.create)
	if old := int64(p.random.IntN(3 * progressWatches)); p.watches[old] != nil && !p.watches[old].over && old != id {
		p.w.request(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: old}}})
	}
}

// behind reports whether a watch was not told that it has had all events.
func (p *progressTest) behind(newest int64) bool {
	for _, k := range p.watches {
		if !k.over && k.told < newest {
			return true
		}
	}
	return false
}

func write(ctx context.Context, kv pb.KVClient, key []byte, del bool) (int64, error) {
	if del {
		a, err := kv.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: key})
		if err != nil || a.Deleted == 0 {
			return 0, err
		}
		return a.Header.Revision, nil
	}
	a, err := kv.Put(ctx, &pb.PutRequest{Key: key, Value: []byte("v")})
	return a.GetHeader().GetRevision(), err
}

// newWatch makes a watch on some of the keys, half of the time from the first write on.
func newWatch(random *rand.Rand, prefix string, id, first int64) *kept {
	from := random.IntN(progressKeys)
	c := &pb.WatchCreateRequest{
		Key: fmt.Appendf(nil, "%s%02d", prefix, from), RangeEnd: fmt.Appendf(nil, "%s%02d", prefix, from+1+random.IntN(progressKeys)),
		WatchId: id, PrevKv: random.IntN(2) == 0, Fragment: random.IntN(2) == 0, ProgressNotify: random.IntN(2) == 0,
	}
	if random.IntN(2) == 0 {
		c.StartRevision = first
	}
	if random.IntN(4) == 0 {
		c.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}
	}
	return &kept{create: c, events: make(map[int64]bool)}
}

// take takes events of a watch.
func (k *kept) take(t *testing.T, a *pb.WatchResponse) {
	for _, e := range a.Events {
		revision := e.Kv.ModRevision
		switch {
		case revision <= k.told:
			t.Errorf("watch %d: the event of revision %d follows progress of %d", a.WatchId, revision, k.told)
		case !k.covers(e.Kv.Key), k.events[revision]:
			t.Errorf("watch %d: an event of %q, revision %d, which is not watched, or came already", a.WatchId, e.Kv.Key, revision)
		case len(k.create.Filters) > 0 && e.Type == mvccpb.Event_DELETE:
			t.Errorf("watch %d: a deletion, which it does not watch", a.WatchId)
		}
		k.events[revision] = true
	}
}
