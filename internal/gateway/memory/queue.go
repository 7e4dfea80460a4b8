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
	filled chan struct{} // has an element if proposals may wait

	mu      sync.Mutex
	waiting []*proposal
	closed  bool
}

func newQueue() *queue { return &queue{filled: make(chan struct{}, 1)} }

// push adds a proposal, unless no more are taken.
func (q *queue) push(p *proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if q.waiting = append(q.waiting, p); len(q.waiting) == 1 {
		signal(q.filled)
	}
	return true
}

// signal puts an element into a channel of capacity one, unless it is full.
func signal(filled chan struct{}) {
	select {
	case filled <- struct{}{}:
	default:
	}
}

// take removes all proposals.
func (q *queue) take() []*proposal {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting = nil
	return all
}

// close refuses all proposals, those included that wait.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	refuse(q.take())
}

// refuse gives proposals back to their callers.
func refuse(proposals []*proposal) {
	for _, p := range proposals {
		if p.owner.CompareAndSwap(0, taken) {
			p.finish(keyspace.Answer{}, errNotActive)
			p.caller.flush()
		}
	}
}
