package admin

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// operateWithin is how long a leader has for one request. It stores the change before it answers.
const operateWithin = 5 * time.Second

// Operate asks for a change and returns its number.
func (l *Leader) Operate(ctx context.Context, request *controllerv1.OperateRequest) (change uint64, err error) {
	err = l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithTimeout(ctx, operateWithin)
		defer cancel()
		out, err := c.Operate(ctx, request)
		change = out.GetChange()
		return err
	})
	return change, err
}

// acceptAtOnce bounds the requests that [Leader.AcceptLosses] sends at once. The leader stores them together.
const acceptAtOnce = 64

// AcceptLosses lets all lost shards of a cluster with a number of shards start empty, and returns how many did.
func (l *Leader) AcceptLosses(ctx context.Context, shards uint32) (accepted int, err error) {
	var count atomic.Int64
	err = l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(acceptAtOnce)
		for shard := range shards {
			group.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, operateWithin)
				defer cancel()
				_, err := c.Operate(ctx, &controllerv1.OperateRequest{
					Kind: &controllerv1.OperateRequest_AcceptLoss{AcceptLoss: shard},
				})
				switch {
				case err == nil:
					count.Add(1)
				case status.Code(err) == codes.Aborted: // the shard is not lost
					return nil
				}
				return err
			})
		}
		return group.Wait()
	})
	return int(count.Load()), err
}

// raiseAgain is the pause after a leader refused to raise a floor, because a shard changes.
const raiseAgain = 100 * time.Millisecond

// RaiseFloor lets a cluster give versions above a floor only. It returns when all members know the floor: the leader
// accepts the request a second time only then.
func (l *Leader) RaiseFloor(ctx context.Context, floor uint64) error {
	request := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Floor{Floor: floor}}
	for accepted := 0; ; {
		_, err := l.Operate(ctx, request)
		if err == nil {
			if accepted++; accepted == 2 {
				return nil
			}
			continue
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(raiseAgain):
		}
	}
}

// Controllers lists the controllers, after the change that the request asks for.
func (l *Leader) Controllers(
	ctx context.Context, request *controllerv1.ControllersRequest,
) (out *controllerv1.ControllersResponse, err error) {
	interrupted := false
	err = l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithTimeout(ctx, operateWithin)
		defer cancel()
		var err error
		out, err = c.Controllers(ctx, request)
		if interrupted && request.GetRemove() != "" && status.Code(err) == codes.NotFound {
			out, err = c.Controllers(ctx, &controllerv1.ControllersRequest{}) // a leader that removed itself may not answer
		}
		interrupted = interrupted || status.Code(err) == codes.Unavailable
		return err
	})
	if err != nil && ctx.Err() != nil && request.String() != "" {
		err = fmt.Errorf("%w; the controllers change only while a majority of them runs", err)
	}
	return out, err
}

// Snapshot asks the leader for the present status. If there is no leader until ctx ends, it returns an error, and what a
// controller knows without a leader, if there is one that answers: nodes and settings, but not the states of shards.
func (l *Leader) Snapshot(ctx context.Context) (s *Snapshot, err error) {
	err = l.Watch(ctx, false, func(now *Snapshot) bool { s = now; return false }, nil)
	return s, err
}

// Plan asks for the moves that a change would cause.
func (l *Leader) Plan(ctx context.Context, request *controllerv1.OperateRequest) (*Plan, error) {
	before, err := l.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var plan *Plan
	err = l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithTimeout(ctx, operateWithin)
		defer cancel()
		out, err := c.Plan(ctx, request)
		if err == nil {
			plan = newPlan(before, out)
		}
		return err
	})
	return plan, err
}
