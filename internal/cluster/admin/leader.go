package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

const (
	// tryAgainAfter is the pause after no controller led: an election takes as long.
	tryAgainAfter = 100 * time.Millisecond
	// answerWithin is how long one controller has for its first answer.
	answerWithin = 2 * time.Second
	// maxMessageBytes holds a plan for every shard of the largest cluster.
	maxMessageBytes = 64 << 20
)

// Leader asks the controller that leads, whichever that is.
type Leader struct {
	dial      []grpc.DialOption
	addresses []string // where to begin, in this order
	conns     map[string]*grpc.ClientConn
}

// NewLeader takes addresses of controllers, or of nodes' agents, which know the controllers.
func NewLeader(addresses []string, dial ...grpc.DialOption) *Leader {
	return &Leader{dial: dial, addresses: slices.Clone(addresses), conns: make(map[string]*grpc.ClientConn)}
}

// Close ends its connections.
func (l *Leader) Close() error {
	var all []error
	for _, conn := range l.conns {
		all = append(all, conn.Close())
	}
	clear(l.conns)
	return errors.Join(all...)
}

// Ask calls the leader. If there is no leader, or the leader changes, Ask looks for one until ctx ends. A refusal of the
// leader is returned at once.
func (l *Leader) Ask(ctx context.Context, call func(context.Context, controllerv1.ControllerClient) error) error {
	reasons := make(map[string]string)
	for {
		asked := make(map[string]bool)
		for queue := slices.Clone(l.addresses); len(queue) > 0 && ctx.Err() == nil; {
			address := queue[0]
			queue = queue[1:]
			if asked[address] {
				continue
			}
			asked[address] = true
			conn, err := l.conn(address)
			if err != nil {
				return err
			}
			err = call(ctx, controllerv1.NewControllerClient(conn))
			next, again := l.next(ctx, conn, err)
			if !again {
				l.remember(address)
				return plainError(err)
			}
			late := ctx.Err() != nil || status.Code(err) == codes.DeadlineExceeded // gRPC's timer may fire before ctx ends
			if !late || reasons[address] == "" {
				reasons[address] = plainError(err).Error()
			}
			queue = append(next, queue...)
		}
		select {
		case <-time.After(tryAgainAfter):
		case <-ctx.Done():
			return nobody(ctx, reasons)
		}
	}
}

func (l *Leader) conn(address string) (*grpc.ClientConn, error) {
	if conn := l.conns[address]; conn != nil {
		return conn, nil
	}
	options := append(slices.Clone(l.dial), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)))
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, fmt.Errorf("controller %q: %w", address, err)
	}
	l.conns[address] = conn
	return conn, nil
}

// next returns the controller to ask after an answer, and whether to ask one.
func (l *Leader) next(ctx context.Context, conn *grpc.ClientConn, err error) (next []string, again bool) {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded:
		return nil, true
	case codes.Unimplemented: // an agent
		return l.controllers(ctx, conn), true
	case codes.FailedPrecondition:
		for _, detail := range s.Details() {
			if leader, ok := detail.(*controllerv1.Leader); ok {
				if leader.GetAddress() != "" {
					next = []string{leader.GetAddress()}
				}
				return next, true
			}
		}
	}
	return nil, false
}

// controllers asks an agent for them.
func (l *Leader) controllers(ctx context.Context, conn *grpc.ClientConn) []string {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	stream, err := controllerv1.NewControllerClient(conn).Map(ctx, &controllerv1.MapRequest{})
	if err != nil {
		return nil
	}
	m, err := stream.Recv()
	if err != nil {
		return nil
	}
	return m.GetControllers()
}

// remember asks this one first from now on.
func (l *Leader) remember(address string) {
	l.addresses = append([]string{address}, slices.DeleteFunc(l.addresses, func(a string) bool { return a == address })...)
}

func nobody(ctx context.Context, reasons map[string]string) error {
	if len(reasons) == 0 {
		return context.Cause(ctx)
	}
	var parts []string
	for _, address := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, address+": "+reasons[address])
	}
	if why := context.Cause(ctx); !errors.Is(why, context.DeadlineExceeded) {
		return fmt.Errorf("no controller that leads was found (%s): %w", strings.Join(parts, "; "), why)
	}
	return lateError(fmt.Sprintf("no controller that leads was found in time (%s)", strings.Join(parts, "; ")))
}

// lateError is [context.DeadlineExceeded] with a text for users.
type lateError string

func (e lateError) Error() string { return string(e) }

func (e lateError) Unwrap() error { return context.DeadlineExceeded }

// plainError returns a controller's message without the text that gRPC adds.
func plainError(err error) error {
	if _, ok := status.FromError(err); ok && err != nil {
		return errors.New(callerror.Text(err))
	}
	return err
}

// Watch calls show with a snapshot of the leader's state, repeatedly if follow is set, until show returns false or ctx ends.
// While nobody leads, show gets what a controller knows without a leader, and a Watch that does not follow tries again.
// If the leader is lost, Watch calls lost and looks for another one until ctx ends.
func (l *Leader) Watch(ctx context.Context, follow bool, show func(*Snapshot) bool, lost func(error)) error {
	return l.Ask(ctx, func(ctx context.Context, c controllerv1.ControllerClient) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		late := time.AfterFunc(answerWithin, cancel)
		stream, err := c.Status(ctx, &controllerv1.StatusRequest{Follow: follow})
		for err == nil {
			var in *controllerv1.StatusResponse
			if in, err = stream.Recv(); err == nil {
				late.Reset(answerWithin)
				more := show(snapshot(in))
				switch {
				case !follow && in.GetLeader() == "":
					err = status.Error(codes.Unavailable, strings.Join(in.GetNotes(), "; "))
				case !follow || !more:
					return nil
				}
			}
		}
		if status.Code(err) == codes.Canceled && !late.Stop() {
			err = status.Error(codes.Unavailable, "no answer in time")
		}
		if status.Code(err) == codes.Unimplemented { // an agent, which was no leader that could be lost
			return err
		}
		if _, again := l.next(ctx, nil, err); again && lost != nil {
			lost(plainError(err))
		}
		return err
	})
}
