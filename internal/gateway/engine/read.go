package engine

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// readers share reads of the chain: a read takes the answer of any that began after it.
type readers struct {
	revision flight
	keys     sync.Map // of *flight
	hits     atomic.Uint64
	misses   atomic.Uint64 // of placed keys
}

// seen is what the chain says of a key: the revision, which was read first, and the object.
type seen struct{ revision, object core.Answer }

// flight is a read that callers share: at most one is under way, and one waits to begin.
type flight struct {
	mu      sync.Mutex
	running bool
	next    *round
}

type round struct {
	done chan struct{}
	seen seen
}

// do returns the result of a read that began after the call.
func (f *flight) do(read func() seen) seen {
	f.mu.Lock()
	if f.running {
		if f.next == nil {
			f.next = &round{done: make(chan struct{})}
		}
		r := f.next
		f.mu.Unlock()
		<-r.done
		return r.seen
	}
	f.running = true
	f.mu.Unlock()
	s := read()
	f.ended(read)
	return s
}

// ended begins the read that waits.
func (f *flight) ended(read func() seen) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.next
	f.next = nil
	if r == nil {
		f.running = false
		return
	}
	go func() {
		r.seen = read()
		close(r.done)
		f.ended(read)
	}()
}

// cacheable reports whether a cached object can answer a request: a linearizable read of one key as it is now.
func cacheable(r *pb.RangeRequest) bool {
	return len(r.Key) > 0 && len(r.RangeEnd) == 0 && r.Revision <= 0 && !r.CountOnly && !r.KeysOnly && r.Limit >= 0 &&
		r.MinModRevision == 0 && r.MaxModRevision == 0 && r.MinCreateRevision == 0 && r.MaxCreateRevision == 0 && !r.Serializable
}

// Range answers a read from the chain; nil: etcd has to.
func (e *Engine) Range(r *pb.RangeRequest) *pb.RangeResponse {
	if !cacheable(r) {
		return nil
	}
	key := string(r.Key)
	e.mu.Lock()
	gen := e.core.Readable(key)
	e.mu.Unlock()
	if gen == 0 {
		return nil
	}
	found, _ := e.reads.keys.LoadOrStore(key, new(flight))
	s := found.(*flight).do(func() seen { return e.look(key) })
	rev, hit := e.core.Hit(gen, s.revision, s.object)
	header := e.header.Load()
	if !hit || header == nil || !e.alive() {
		e.reads.misses.Add(1)
		e.missed(key, &s)
		return nil
	}
	e.reads.hits.Add(1)
	o := &s.object.Object
	e.usage.read(key, len(o.Value))
	answer := &pb.RangeResponse{Header: &pb.ResponseHeader{
		ClusterId: header.ClusterId, MemberId: header.MemberId, RaftTerm: header.RaftTerm, Revision: rev,
	}}
	if o.State == core.Value {
		answer.Count = 1
		answer.Kvs = []*mvccpb.KeyValue{{
			Key: r.Key, CreateRevision: o.Create, ModRevision: o.Rev, Version: o.Version, Value: []byte(o.Value),
		}}
	}
	return answer
}

// look reads the revision first, then the key.
func (e *Engine) look(key string) (s seen) {
	s.revision = e.reads.revision.do(func() seen { return seen{revision: e.store.Revision(e.ctx)} }).revision
	if s.revision.Status == core.OK {
		s.object = e.store.Object(e.ctx, key)
	} else {
		s.object.Status = core.Away
	}
	return s
}

// Read counts a read that etcd answered.
func (e *Engine) Read(r *pb.RangeRequest, answer *pb.RangeResponse) {
	if !cacheable(r) {
		return
	}
	if len(answer.Kvs) == 1 {
		kv := answer.Kvs[0]
		if kv.Lease == 0 && e.store.Fits(string(kv.Key), len(kv.Value)) {
			e.usage.read(string(kv.Key), len(kv.Value))
		}
		return
	}
	if e.store.Fits(string(r.Key), 0) {
		e.usage.read(string(r.Key), 0)
	}
}

func (e *Engine) missed(key string, s *seen) {
	switch o := &s.object; {
	case o.Status == core.OK && o.Object.Bits != 0:
		e.mu.Lock()
		e.core.Suspect(key)
		e.mu.Unlock()
	case o.Status == core.Miss, o.Status == core.OK && o.Object.Joining:
		e.places.lost(key)
	case o.Status == core.OK && o.Object.State == core.NotCacheable:
		e.usage.write(key, 0, true)
	}
}

// Stats counts reads since the start.
type Stats struct {
	Hits   uint64 // answered from the chain
	Misses uint64 // of placed keys, answered by etcd
}

// Stats counts reads.
func (e *Engine) Stats() Stats { return Stats{e.reads.hits.Load(), e.reads.misses.Load()} }
