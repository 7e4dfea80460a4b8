package gatewaycheck

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/netcraq/netcraq/internal/platform/retry"
)

// Operator changes an etcd cluster, through those of its members that answer.
type Operator struct {
	clients *clientv3.Client
}

// Operate connects to members.
func Operate(addresses []string) (*Operator, error) {
	c, err := connect(addresses...)
	if err != nil {
		return nil, err
	}
	return &Operator{c}, nil
}

// Close ends all connections.
func (o *Operator) Close() {
	_ = o.clients.Close() // its error only reports that the connection is gone
}

// operateEvery is the pause after a change that was refused: etcd refuses some in the first seconds of a member, and
// the promotion of a learner that lags.
const operateEvery = 100 * time.Millisecond

// until repeats a change until it is made or ctx ends.
func (o *Operator) until(ctx context.Context, change func(ctx context.Context) error) error {
	for {
		within, cancel := context.WithTimeout(ctx, 2*tryWithin)
		err := change(within)
		cancel()
		if err == nil {
			return nil
		}
		if !retry.Sleep(ctx, operateEvery) {
			return errors.Join(err, ctx.Err())
		}
	}
}

// find returns the member with a peer URL; nil: none.
func (o *Operator) find(ctx context.Context, peer string) (*pb.Member, error) {
	list, err := o.clients.MemberList(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range list.Members {
		if len(m.PeerURLs) == 1 && m.PeerURLs[0] == peer {
			return m, nil
		}
	}
	return nil, nil
}

// Remove removes the member with a peer URL.
func (o *Operator) Remove(ctx context.Context, peer string) error {
	return o.until(ctx, func(ctx context.Context) error {
		m, err := o.find(ctx, peer)
		if m == nil {
			return err
		}
		_, err = o.clients.MemberRemove(ctx, m.ID)
		return err
	})
}

// Add adds a member that has not started.
func (o *Operator) Add(ctx context.Context, peer string, learner bool) error {
	return o.until(ctx, func(ctx context.Context) error {
		m, err := o.find(ctx, peer)
		switch {
		case m != nil || err != nil:
			return err
		case learner:
			_, err = o.clients.MemberAddAsLearner(ctx, []string{peer})
		default:
			_, err = o.clients.MemberAdd(ctx, []string{peer})
		}
		return err
	})
}

// Promote gives a learner a vote, once it has what the leader has.
func (o *Operator) Promote(ctx context.Context, peer string) error {
	return o.until(ctx, func(ctx context.Context) error {
		m, err := o.find(ctx, peer)
		switch {
		case err != nil:
			return err
		case m == nil:
			return fmt.Errorf("no member has the peer URL %s", peer)
		case !m.IsLearner:
			return nil
		}
		_, err = o.clients.MemberPromote(ctx, m.ID)
		return err
	})
}

// Lead makes the member with a peer URL the leader, if the leader and the member go along. It is tried once.
func (o *Operator) Lead(ctx context.Context, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*tryWithin)
	defer cancel()
	next, err := o.find(ctx, peer)
	if next == nil {
		return err
	}
	for _, address := range o.clients.Endpoints() {
		s, err := o.clients.Status(ctx, address)
		if err != nil || s.Leader != s.Header.MemberId {
			continue
		}
		leader, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
		if err != nil {
			return err
		}
		_, err = leader.MoveLeader(ctx, next.ID)
		return errors.Join(err, leader.Close())
	}
	return errors.New("no member leads")
}
