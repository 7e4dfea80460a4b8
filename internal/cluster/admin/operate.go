package admin

import (
	"context"
	"time"

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

// Controllers lists the members of the controllers' etcd. If replace is not empty, the place of that controller, whose data
// is lost, is made free before.
func (l *Leader) Controllers(ctx context.Context, replace string) (members []*controllerv1.EtcdMember, err error) {
	err = l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithTimeout(ctx, operateWithin)
		defer cancel()
		out, err := c.Controllers(ctx, &controllerv1.ControllersRequest{Replace: replace})
		members = out.GetMembers()
		return err
	})
	return members, err
}

// Snapshot asks the leader for the present status.
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
