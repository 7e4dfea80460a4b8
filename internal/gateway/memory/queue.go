package memory

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// proposal is a command that waits for its outcome.
type proposal struct {
	command  keyspace.Command
	encoded  []byte       // the command
	owner    atomic.Int32 // see below
	caller   caller
	cost     int64         // counted in reserved
	reserved *reservations // nil: nothing is reserved
}

// finish gives the outcome to the caller.
func (p *proposal) finish(a keyspace.Answer, err error) {
	p.release()
	p.caller.finish(a, err)
}

// release gives back what is reserved.
func (p *proposal) release() {
	if p.reserved != nil {
		p.reserved.release(p.cost)
	}
}

// A proposal belongs to its caller until the leader takes it, or the caller takes it back.
const (
	taken = iota + 1
	takenBack
)

// caller receives the outcome of a proposal.
type caller interface {
	// finish is called once, and must not wait. The error errNotActive means that the command was not executed and will
	// not be.
	finish(a keyspace.Answer, err error)
	// flush is called after the outcomes of a batch.
	flush()
}

// waiter is a caller with a goroutine.
type waiter chan answer

type answer struct {
	keyspace.Answer
	err error
}

func (w waiter) finish(a keyspace.Answer, err error) { w <- answer{a, err} }

func (waiter) flush() {}

// errNotActive: the call had no effect, because this gateway is not active.
var errNotActive = errors.New("this gateway is not active")

// queue has the proposals that wait for the log. Each is a call under way, and the server limits those.
type queue struct {
	batch  int           // bytes of a whole batch
	filled chan struct{} // has an element if proposals may wait, or have become a whole batch

	mu      sync.Mutex
	waiting []*proposal
	bytes   int // of them
	closed  bool
}

func newQueue(batch int) *queue { return &queue{batch: batch, filled: make(chan struct{}, 1)} }

// push adds a proposal, unless no more are taken.
func (q *queue) push(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	before := q.bytes
	q.waiting, q.bytes = append(q.waiting, p), before+len(p.encoded)
	if len(q.waiting) == 1 || before < q.batch && q.bytes >= q.batch {
		signal(q.filled)
	}
	return true
}

// whole reports whether a whole batch waits.
func (q *queue) whole() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes >= q.batch
}

// signal puts an element into a channel of capacity one, unless it is full.
func signal(filled chan struct{}) {
	select {
	case filled <- struct{}{}:
	default:
	}
}

// take removes the proposals of the next batch. One that is longer than a batch is alone.
func (q *queue) take() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for ; n < len(q.waiting); n++ {
		next := len(q.waiting[n].encoded)
		if n > 0 && bytes+next > q.batch {
			break
		}
		bytes += next
	}
	some := q.waiting[:n]
	q.waiting, q.bytes = q.waiting[n:], q.bytes-bytes
	if len(q.waiting) == 0 {
		q.waiting = nil
	} else {
		signal(q.filled)
	}
	return some
}

// close refuses all proposals, those included that wait.
func (q *queue) close() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.bytes, q.closed = nil, 0, true
	q.mu.Unlock()
	for _, p := range waiting {
		if p.owner.CompareAndSwap(0, taken) {
			p.finish(keyspace.Answer{}, errNotActive)
			p.caller.flush()
		}
	}
}
