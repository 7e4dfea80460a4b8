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
func (c *Client) observeAll(ctx context.Context, ops []Op, to sink) sink {
	if c.options.Observe == nil {
		return to
	}
	o := &observed{sink: to, ends: make([]func(Result, error), len(ops))}
	for i := range ops {
		o.ends[i] = c.observeOne(ctx, &ops[i])
	}
	return o
}

// observed is a sink that an observer looks into.
type observed struct {
	sink
	ends []func(Result, error)
}

func (o *observed) ended(i int, r Result, err error) {
	o.ends[i](r, err)
	o.sink.ended(i, r, err)
}
