package client

import "context"

// observeOne tells the client's observer of an operation, and returns the function to call at its end.
func (c *Client) observeOne(ctx context.Context, op *Op) func(Result, error) {
	if c.options.Observe != nil {
		if ended := c.options.Observe(ctx, op); ended != nil {
			return ended
		}
	}
	return func(Result, error) {}
}

// observeAll tells the client's observer of operations, and returns a sink that tells it of their ends too.
func (c *Client) observeAll(ctx context.Context, w *work, to sink) sink {
	if c.options.Observe == nil {
		return to
	}
	if w.ops == nil {
		w.listOps()
	}
	o := &observed{sink: to, outcomes: w.outcomes, ends: make([]func(Result, error), len(w.ops))}
	for i := range w.ops {
		o.ends[i] = c.observeOne(ctx, &w.ops[i])
	}
	return o
}

// listOps makes an operation of each read, because an observer is shown operations.
func (w *work) listOps() {
	w.ops = make([]Op, len(w.outcomes))
	for i := range w.ops {
		w.ops[i] = w.read
		if w.names != nil {
			w.ops[i].Key = w.names[i]
		} else {
			w.ops[i] = w.read.WithKey(w.keys[i])
		}
	}
	w.names, w.keys = nil, nil
}

// observed is a sink that an observer looks into.
type observed struct {
	sink
	outcomes []Outcome
	ends     []func(Result, error)
}

func (o *observed) ended(i int) {
	o.ends[i](o.outcomes[i].Result, o.outcomes[i].Err)
	o.sink.ended(i)
}
