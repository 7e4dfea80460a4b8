package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// Reader is a read of one key that waits for the chain. One of Answer and Pass is called, once, on any goroutine.
type Reader interface {
	// Answer takes an encoded RangeResponse, which other reads share.
	Answer(message []byte)
	// Pass has etcd answer.
	Pass()
	// Flush follows Answer when other reads of the same moment have been answered too.
	Flush()
}

// readers share reads of the chain: a [core.Round] has every object that was asked for before it began. A round begins when
// the one before has its revision.
type readers struct {
	mu      sync.Mutex
	waiting *round // the next one; nil: no read waits
	running bool   // a goroutine begins rounds
	hits    atomic.Uint64
	nearby  atomic.Uint64 // of the hits: without the network
	misses  atomic.Uint64 // of placed keys
}

// round is a round and its readers, by key.
type round struct {
	core.Round
	readers [][]Reader
}

// cacheable reports whether a cached object can answer a request: a linearizable read of one key as it is now.
func cacheable(r *pb.RangeRequest) bool {
	return len(r.Key) > 0 && len(r.RangeEnd) == 0 && r.Revision <= 0 && !r.CountOnly && !r.KeysOnly && r.Limit >= 0 &&
		r.MinModRevision == 0 && r.MaxModRevision == 0 && r.MinCreateRevision == 0 && r.MaxCreateRevision == 0 &&
		!r.Serializable
}

// Begin has a linearizable read of a key answered from the chain, in a round that begins after the call. It returns
// false if etcd has to answer.
func (e *Engine) Begin(key string, reader Reader) bool {
	e.mu.Lock()
	instance, inherited := e.core.BeginRead(key)
	compared := e.tenure.Reads()
	e.mu.Unlock()
	if inherited {
		e.places.lost(key)
	}
	if instance == 0 || !compared {
		return false
	}
	r := &e.reads
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = new(round)
	}
	r.waiting.join(key, instance, reader)
	if !r.running {
		r.running = true
		go e.rounds()
	}
	return true
}

func (r *round) join(key string, instance int64, reader Reader) {
	i := r.Join(key, instance)
	if i == len(r.readers) {
		r.readers = append(r.readers, nil)
	}
	r.readers[i] = append(r.readers[i], reader)
}

// Range answers a read from the chain with an encoded RangeResponse; nil: etcd has to answer.
func (e *Engine) Range(r *pb.RangeRequest) []byte {
	if !cacheable(r) {
		return nil
	}
	answer := make(blocking, 1)
	if !e.Begin(string(r.Key), answer) {
		return nil
	}
	return <-answer
}

// blocking is a reader that a goroutine waits for.
type blocking chan []byte

func (b blocking) Answer(message []byte) { b <- message }
func (b blocking) Pass()                 { b <- nil }
func (b blocking) Flush()                {}

// rounds begins rounds until no read waits.
func (e *Engine) rounds() {
	for {
		runtime.Gosched() // reads that are about to begin share the round
		r := &e.reads
		r.mu.Lock()
		round := r.waiting
		r.waiting = nil
		if round == nil {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		e.did.read(round.Keys())
		round.Nearby(e.store.ReadNearby(round.Keys()))
		if kind, more := round.Next(); more && kind == core.ReadRevision {
			e.read(round, kind)
		}
		go e.finish(round)
	}
}

// read reads through the network what a round needs next.
func (e *Engine) read(r *round, kind core.OpKind) {
	if kind == core.ReadRevision {
		r.Revision(e.store.Revision(e.ctx))
	} else {
		r.Objects(e.store.Objects(e.ctx, r.Missing()))
	}
}

// finish ends a round.
func (e *Engine) finish(r *round) {
	for kind, more := r.Next(); more; kind, more = r.Next() {
		e.read(r, kind)
	}
	for i := range r.readers {
		if e.end(r, i) && r.Near(i) {
			e.reads.nearby.Add(uint64(len(r.readers[i])))
		}
	}
	for _, readers := range r.readers {
		for _, reader := range readers {
			reader.Flush()
		}
	}
}

// end answers the reads of a key in a round, by its index, and reports whether they are hits. They count before they are answered.
func (e *Engine) end(r *round, i int) bool {
	key, readers, object := r.Keys()[i], r.readers[i], r.Object(i)
	n := len(readers)
	e.mu.Lock()
	rev, hit := e.core.Judge(&r.Round, i)
	e.mu.Unlock()
	header := e.header.Load()
	var message []byte
	if hit && header != nil {
		message = e.encode(key, header, rev, &object.Object)
	}
	if message == nil {
		e.reads.misses.Add(uint64(n))
		if object != nil {
			e.missed(key, object)
		}
		for _, reader := range readers {
			reader.Pass()
		}
		return false
	}
	e.reads.hits.Add(uint64(n))
	e.usage.hits(key, len(object.Object.Value), n)
	for _, reader := range readers {
		reader.Answer(message)
	}
	return true
}

// encode makes a hit's answer; nil: it cannot be encoded, or its value was packed with a dictionary that is not known yet.
func (e *Engine) encode(key string, header *pb.ResponseHeader, rev int64, o *core.Object) []byte {
	answer := &pb.RangeResponse{Header: &pb.ResponseHeader{
		ClusterId: header.ClusterId, MemberId: header.MemberId, RaftTerm: header.RaftTerm, Revision: rev,
	}}
	if o.State == core.Value || o.State == core.Packed {
		value := []byte(o.Value)
		if o.State == core.Packed {
			var err error
			if value, err = e.packing.set.Unpack(o.Value); err != nil {
				return nil
			}
		}
		answer.Count = 1
		answer.Kvs = []*mvccpb.KeyValue{{
			Key: []byte(key), CreateRevision: o.Create, ModRevision: o.Rev, Version: o.Version, Value: value,
		}}
	}
	message, err := proto.Marshal(answer)
	if err != nil {
		return nil
	}
	return message
}

// Read counts a read that etcd answered.
func (e *Engine) Read(r *pb.RangeRequest, answer *pb.RangeResponse) {
	if !cacheable(r) || !e.isIdentified() {
		return
	}
	key := string(r.Key)
	e.places.asked.reads.Add(1)
	switch {
	case len(answer.Kvs) == 1:
		kv := answer.Kvs[0]
		e.sample(string(kv.Value))
		if _, _, fits := e.pack(key, kv.Value); !fits || kv.Lease != 0 {
			return
		}
		e.usage.fits(key, len(kv.Value))
	case e.store.Fits(key, 0):
		e.usage.reads(key, 0, 1)
	}
	if e.o.Placement.Pins(key) {
		e.places.pinned(key)
	}
}

func (e *Engine) missed(key string, object *core.Answer) {
	switch {
	case object.Status == core.OK && object.Object.Bits != 0: // the core has noted it
	case object.Status == core.Miss, object.Status == core.OK && object.Object.Joining:
		e.places.lost(key)
	case object.Status == core.OK && object.Object.State == core.NotCacheable:
		e.usage.write(key, 0, true)
	}
}

// Stats counts reads since the start.
type Stats struct {
	Hits   uint64 // answered from the chain
	Nearby uint64 // of these: from the memory of a node on this machine
	Misses uint64 // of placed keys, answered by etcd
}

// Stats counts reads.
func (e *Engine) Stats() Stats {
	return Stats{e.reads.hits.Load(), e.reads.nearby.Load(), e.reads.misses.Load()}
}
