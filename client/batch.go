package client

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Outcome is how one of many operations ended.
type Outcome struct {
	Result
	Err error
}

// Do runs operations side by side, in no order, and returns their outcomes in the order given. At most
// [Options].Window operations are under way at once on each socket, of which there is one for each CPU, at most four;
// the rest wait.
func (c *Client) Do(ctx context.Context, ops []Op) []Outcome {
	return c.doAll(ctx, &work{ops: ops, outcomes: make([]Outcome, len(ops))})
}

// GetMany reads keys side by side, as Do does.
func (c *Client) GetMany(ctx context.Context, keys []string, options ...ReadOption) []Outcome {
	return c.doAll(ctx, &work{names: keys, read: GetOp("", options...), outcomes: make([]Outcome, len(keys))})
}

// GetKeys is a [Client.GetMany] of keys whose hashes are known.
func (c *Client) GetKeys(ctx context.Context, keys []Key, options ...ReadOption) []Outcome {
	return c.doAll(ctx, &work{keys: keys, read: GetOp("", options...), outcomes: make([]Outcome, len(keys))})
}

// doAll runs operations and waits for their ends.
func (c *Client) doAll(ctx context.Context, w *work) []Outcome {
	if len(w.outcomes) == 0 {
		return w.outcomes
	}
	p, err := c.pipes.quietest(c)
	if err != nil {
		for i := range w.outcomes {
			w.outcomes[i].Err = err
		}
		return w.outcomes
	}
	defer p.release()
	b := &batch{done: make(chan struct{})}
	b.open.Store(int64(len(w.outcomes)))
	p.submit(ctx, w, c.observeAll(ctx, w, b))
	p.send()
	<-b.done
	// A caller that sends and receives for itself never waits: it would keep its CPU from other callers for 10 ms.
	runtime.Gosched()
	return w.outcomes
}

// work is operations that are submitted together, and the places of their outcomes: ops, or reads of names or of keys.
// It must not change until all have ended.
type work struct {
	ops      []Op
	names    []string
	keys     []Key
	read     Op // of all names or keys
	outcomes []Outcome
}

// at returns an operation and its key.
func (w *work) at(i int) (op *Op, key Key, err error) {
	switch {
	case w.names != nil:
		key, err = KeyOf(w.names[i])
		return &w.read, key, err
	case w.keys != nil:
		return &w.read, w.keys[i], nil
	}
	key, err = w.ops[i].hashedKey()
	return &w.ops[i], key, err
}

// writes reports whether a write is among some of the operations.
func (w *work) writes(from, to int) bool {
	return w.ops != nil && slices.ContainsFunc(w.ops[from:to], func(o Op) bool { return o.kind.IsWrite() })
}

// Start begins an operation and returns; it waits only for room in the window. ended is called exactly once, perhaps
// before Start returns, on a goroutine that serves other operations: it must not wait, nor call Do or Start.
func (c *Client) Start(ctx context.Context, op Op, ended func(Result, error)) {
	p, err := c.pipes.first(c)
	if err != nil {
		ended(Result{}, err)
		return
	}
	s := &started{op: [1]Op{op}, call: ended}
	w := work{ops: s.op[:], outcomes: s.outcome[:]}
	p.submit(ctx, &w, c.observeAll(ctx, &w, s))
	wake(p.toSend)
}

// started is one operation of Start.
type started struct {
	op      [1]Op
	outcome [1]Outcome
	call    func(Result, error)
}

func (s *started) ended(int) { s.call(s.outcome[0].Result, s.outcome[0].Err) }

// runShared is a single operation that shares the pipeline with others of the same moment.
func (c *Client) runShared(ctx context.Context, op *Op) (Result, error) {
	p, err := c.pipes.first(c)
	if err != nil {
		return Result{}, err
	}
	s := singles.Get().(*single)
	s.op[0] = *op
	p.submit(ctx, &s.work, s)
	wake(p.toSend)
	<-s.done
	outcome := s.outcome[0]
	s.op[0], s.outcome[0] = Op{}, Outcome{}
	singles.Put(s)
	return outcome.Result, outcome.Err
}

// single waits for one operation.
type single struct {
	op      [1]Op
	outcome [1]Outcome
	work    work // these
	done    chan struct{}
}

var singles = sync.Pool{New: func() any {
	s := &single{done: make(chan struct{}, 1)}
	s.work = work{ops: s.op[:], outcomes: s.outcome[:]}
	return s
}}

func (s *single) ended(int) { s.done <- struct{}{} }

// sink is told the end of an operation whose outcome is in its place, by the number under which it was submitted.
type sink interface{ ended(i int) }

// batch waits for operations that were submitted together.
type batch struct {
	open atomic.Int64
	done chan struct{}
}

func (b *batch) ended(int) {
	if b.open.Add(-1) == 0 {
		close(b.done)
	}
}
