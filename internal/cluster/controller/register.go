package controller

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/reconfig"
)

// register waits until it is durable that a node is in the cluster, which a leader sees to.
func (c *Controller) register(ctx context.Context, h reconfig.Registration) (node reconfig.NodeID, err error) {
	for err == nil && node == 0 {
		t := c.term.Load()
		if t != nil {
			if err = t.welcome(ctx, h); errors.Is(err, errTermOver) {
				err = nil
				continue
			}
		}
		if err == nil {
			err = c.view.until(ctx, func() bool {
				n := c.view.node(h.Name)
				if n != nil && n.Incarnation == h.Incarnation && n.Standing != reconfig.Removed {
					node = n.ID
				}
				return node != 0 || c.term.Load() != t
			})
		}
	}
	return node, err
}

// errTermOver says that this controller does not lead any more.
var errTermOver = errors.New("the term is over")

// welcome asks the leader to take a node in, and returns when it said no, or that it will.
func (t *leading) welcome(ctx context.Context, h reconfig.Registration) error {
	answer := make(chan error, 1)
	t.inbox.call(func(l *reconfig.Leader) { answer <- l.Register(t.c.now(), h) })
	select {
	case err := <-answer:
		if err != nil {
			return refusal{err}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ctx.Done():
		return errTermOver
	}
}

// notLeading sends a caller to the leader.
func (c *Controller) notLeading() error {
	led, _ := c.view.led()
	s := status.New(codes.Unavailable, "no controller leads at present")
	if led.Term != 0 && led.Address != c.options.Address {
		s = status.New(codes.FailedPrecondition, "this controller does not lead: "+led.Address+" does")
	}
	s, err := s.WithDetails(&controllerv1.Leader{Address: led.Address})
	return errors.Join(s.Err(), err)
}
