package admin

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
)

// server answers as a controller that leads, one that does not, or an agent would.
type server struct {
	controllerv1.UnimplementedControllerServer
	address string
	leader  *atomic.Pointer[string] // the leader's address; empty: none
	agent   bool
	refuse  error
	asked   atomic.Int64
}

func (s *server) Operate(context.Context, *controllerv1.OperateRequest) (*controllerv1.OperateResponse, error) {
	s.asked.Add(1)
	switch leader := *s.leader.Load(); {
	case s.agent:
		return nil, status.Error(codes.Unimplemented, "an agent")
	case leader != s.address:
		st, err := status.New(codes.FailedPrecondition, "this controller does not lead").WithDetails(&controllerv1.Leader{Address: leader})
		if err != nil {
			return nil, err
		}
		return nil, st.Err()
	case s.refuse != nil:
		return nil, s.refuse
	}
	return &controllerv1.OperateResponse{Change: 7}, nil
}

func (s *server) Status(_ *controllerv1.StatusRequest, stream grpc.ServerStreamingServer[controllerv1.StatusResponse]) error {
	if s.agent {
		return status.Error(codes.Unimplemented, "an agent")
	}
	s.asked.Add(1)
	if *s.leader.Load() == "" { // etcd is in trouble
		return stream.Send(&controllerv1.StatusResponse{Notes: []string{"nobody leads"}, Shards: 256})
	}
	return stream.Send(&controllerv1.StatusResponse{Leader: s.address})
}

func (s *server) Map(_ *controllerv1.MapRequest, stream grpc.ServerStreamingServer[controllerv1.MapResponse]) error {
	return stream.Send(&controllerv1.MapResponse{Controllers: []string{*s.leader.Load()}})
}

func serve(t *testing.T, leader *atomic.Pointer[string]) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{address: listener.Addr().String(), leader: leader}
	g := grpc.NewServer()
	controllerv1.RegisterControllerServer(g, s)
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	return s
}

func ask(t *testing.T, within time.Duration, addresses ...string) error {
	t.Helper()
	l := NewLeader(addresses, grpc.WithTransportCredentials(insecure.NewCredentials()))
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	change, err := l.Operate(ctx, &controllerv1.OperateRequest{})
	if err == nil && change != 7 {
		t.Errorf("change %d", change)
	}
	return err
}

func TestTheLeaderIsFoundFromAnywhere(t *testing.T) {
	var leader atomic.Pointer[string]
	a, b, agent := serve(t, &leader), serve(t, &leader), serve(t, &leader)
	agent.agent = true
	leader.Store(&b.address)
	away := "127.0.0.1:1"
	for _, start := range [][]string{{b.address}, {a.address}, {agent.address}, {away, a.address}, {away, agent.address}} {
		if err := ask(t, 10*time.Second, start...); err != nil {
			t.Errorf("from %v: %v", start, err)
		}
	}
}

func TestAnAgentLeadsToTheStatus(t *testing.T) {
	var leader atomic.Pointer[string]
	a, agent := serve(t, &leader), serve(t, &leader)
	agent.agent = true
	leader.Store(&a.address)
	l := NewLeader([]string{agent.address}, grpc.WithTransportCredentials(insecure.NewCredentials()))
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if s, err := l.Snapshot(ctx); err != nil || s.Leader != a.address {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAnElectionIsWaitedFor(t *testing.T) {
	var leader atomic.Pointer[string]
	a := serve(t, &leader)
	nobody := ""
	leader.Store(&nobody)
	err := ask(t, 300*time.Millisecond, a.address)
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.HasPrefix(err.Error(), "no controller that leads was found in time (") ||
		strings.Contains(err.Error(), "context") {
		t.Errorf("nobody leads: %v", err)
	}
	go func() {
		for a.asked.Load() < 5 {
			runtime.Gosched()
		}
		leader.Store(&a.address)
	}()
	if err := ask(t, 10*time.Second, a.address); err != nil {
		t.Error(err)
	}
}

// deadlineContext reports its end as that of a deadline.
type deadlineContext struct{ context.Context }

// Value hides the context below from contexts that are derived from this one: they would end as that one does.
func (c deadlineContext) Value(any) any { return nil }

func (c deadlineContext) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return context.DeadlineExceeded
}

// A status without a leader is none: it is waited for, and an error if none comes.
func TestStatusDuringAnElection(t *testing.T) {
	var leader atomic.Pointer[string]
	a := serve(t, &leader)
	nobody := ""
	leader.Store(&nobody)
	l := NewLeader([]string{a.address}, grpc.WithTransportCredentials(insecure.NewCredentials()))
	defer l.Close()
	until, end := context.WithCancel(t.Context())
	go func() { // the first answer has arrived when the second one is asked for
		for a.asked.Load() < 2 {
			runtime.Gosched()
		}
		end()
	}()
	s, err := l.Snapshot(deadlineContext{until})
	if err == nil || !strings.Contains(err.Error(), "nobody leads") || s == nil {
		t.Errorf("%+v, %v", s, err)
	}
	asked := a.asked.Load()
	go func() {
		for a.asked.Load() < asked+3 {
			runtime.Gosched()
		}
		leader.Store(&a.address)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s, err := l.Snapshot(ctx); err != nil || s.Leader != a.address {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWhatTheLeaderRefusesIsSaidOnce(t *testing.T) {
	var leader atomic.Pointer[string]
	a := serve(t, &leader)
	leader.Store(&a.address)
	a.refuse = status.Error(codes.Aborted, "node x is in use: drain it first")
	if err := ask(t, 10*time.Second, a.address); err == nil || err.Error() != "node x is in use: drain it first" {
		t.Error(err)
	}
	if n := a.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}
