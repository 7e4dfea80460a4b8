package client

import (
	"context"
	"sync"
	"sync/atomic"
)

// Outcome is how one of many operations ended.
type Outcome struct {
	Result
	Err error
}

// Do runs operations side by side, in no order, and returns their outcomes in the order given. At most
// [Options].Window of all Do and Start calls are under way at once; the rest wait.
func (c *Client) Do(ctx context.Context, ops []Op) []Outcome {
	b := &batch{outcomes: make([]Outcome, len(ops)), done: make(chan struct{})}
	if len(ops) == 0 {
		return b.outcomes
	}
	b.open.Store(int64(len(ops)))
	p, err := c.pipes.get(c)
	if err != nil {
		for i := range ops {
			b.outcomes[i].Err = err
		}
		return b.outcomes
	}
	p.submit(ctx, ops, c.observeAll(ctx, ops, b))
	p.send()
	<-b.done
	return b.outcomes
}

// GetMany reads keys side by side.
func (c *Client) GetMany(ctx context.Context, keys []string, options ...ReadOption) []Outcome {
	ops := make([]Op, len(keys))
	for i, key := range keys {
		ops[i] = GetOp(key, options...)
	}
	return c.Do(ctx, ops)
}

// Start begins an operation and returns; it waits only for room in the window. ended is called exactly once, perhaps
// before Start returns, on a goroutine that serves other operations: it must not wait, nor call Do or Start.
func (c *Client) Start(ctx context.Context, op Op, ended func(Result, error)) {
	p, err := c.pipes.get(c)
	if err != nil {
		ended(Result{}, err)
		return
	}
	ops := []Op{op}
	p.submit(ctx, ops, c.observeAll(ctx, ops, callback(ended)))
	wake(p.toSend)
}

// runShared is a single operation that shares the pipeline with others of the same moment.
func (c *Client) runShared(ctx context.Context, op *Op) (Result, error) {
	p, err := c.pipes.get(c)
	if err != nil {
		return Result{}, err
	}
	s := singles.Get().(*single)
	s.op[0] = *op
	p.submit(ctx, s.op[:], s)
	wake(p.toSend)
	<-s.done
	outcome := s.outcome
	s.op[0], s.outcome = Op{}, Outcome{}
	singles.Put(s)
	return outcome.Result, outcome.Err
}

// single waits for one operation.
type single struct {
	op      [1]Op
	outcome Outcome
	done    chan struct{}
}

var singles = sync.Pool{New: func() any { return &single{done: make(chan struct{}, 1)} }}

func (s *single) ended(_ int, r Result, err error) {
	s.outcome = Outcome{r, err}
	s.done <- struct{}{}
}

// sink is told the end of an operation, by the number under which it was submitted.
type sink interface {
	ended(i int, r Result, err error)
}

type callback func(Result, error)

func (f callback) ended(_ int, r Result, err error) { f(r, err) }

// batch collects the outcomes of a Do.
type batch struct {
	outcomes []Outcome
	open     atomic.Int64
	done     chan struct{}
}

func (b *batch) ended(i int, r Result, err error) {
	b.outcomes[i] = Outcome{r, err}
	if b.open.Add(-1) == 0 {
		close(b.done)
	}
}
