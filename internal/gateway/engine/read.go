package engine

import (
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// readers share reads of the chain. A round reads the revision, and then every object that was asked for before the round began. A
// round begins when the one before has its revision.
type readers struct {
	mu      sync.Mutex
	waiting map[string]*sharedRead // for the next round
	running bool                   // a goroutine begins rounds
	hits    atomic.Uint64
	misses  atomic.Uint64 // of placed keys
}

// sharedRead is the read of a key in one round.
type sharedRead struct {
	seen
	done chan struct{}
}

// seen is what the chain says of a key: the revision, which was read first, and the object.
type seen struct{ revision, object core.Answer }

// look reads a key of the chain in a round that begins after the call.
func (e *Engine) look(key string) *seen {
	r := &e.reads
	r.mu.Lock()
	s := r.waiting[key]
	if s == nil {
		if r.waiting == nil {
			r.waiting = make(map[string]*sharedRead)
		}
		s = &sharedRead{done: make(chan struct{})}
		r.waiting[key] = s
	}
	if !r.running {
		r.running = true
		go e.rounds()
	}
	r.mu.Unlock()
	<-s.done
	return &s.seen
}

// rounds begins rounds until no read waits.
func (e *Engine) rounds() {
	for {
		r := &e.reads
		r.mu.Lock()
		round := r.waiting
		r.waiting = nil
		if len(round) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		revision := e.store.Revision(e.ctx)
		go e.finish(round, revision)
	}
}

// finish reads the objects of a round.
func (e *Engine) finish(round map[string]*sharedRead, revision core.Answer) {
	keys := make([]string, 0, len(round))
	for key, s := range round {
		keys = append(keys, key)
		s.revision, s.object.Status = revision, core.Away
	}
	if revision.Status == core.OK {
		for i, a := range e.store.Objects(e.ctx, keys) {
			round[keys[i]].object = a
		}
	}
	for _, s := range round {
		close(s.done)
	}
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
	s := e.look(key)
	rev, hit := e.core.Hit(gen, s.revision, s.object)
	header := e.header.Load()
	if !hit || header == nil || !e.alive() {
		e.reads.misses.Add(1)
		e.missed(key, s)
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
