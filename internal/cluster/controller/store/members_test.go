package store

import (
	"context"
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// dropping is a Raft that drops changes of the members: etcd answers them only when their time is over.
type dropping struct {
	clientv3.Cluster
	t *testing.T
}

func (d dropping) drop(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded {
		d.t.Error("a change that Raft has dropped is waited for without an end")
	}
	return context.DeadlineExceeded
}

func (d dropping) MemberAddAsLearner(ctx context.Context, _ []string) (*clientv3.MemberAddResponse, error) {
	return nil, d.drop(ctx)
}

func (d dropping) MemberRemove(ctx context.Context, _ uint64) (*clientv3.MemberRemoveResponse, error) {
	return nil, d.drop(ctx)
}

// TestDroppedChangesEnd: a change of the members that Raft has dropped ends, and its repetition succeeds.
func TestDroppedChangesEnd(t *testing.T) {
	const name, peer = "c9", "127.0.0.1:19"
	s := open(t, Options{Embedded: alone(t)})
	form(t, s)
	whole := s.client.Cluster
	for _, change := range []func(context.Context, string, string) error{s.AddLearner, s.RemoveMember} {
		s.client.Cluster = dropping{whole, t}
		if err := change(context.Background(), name, peer); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a dropped change: %v", err)
		}
		s.client.Cluster = whole
		if err := change(within(t), name, peer); err != nil {
			t.Error(err)
		}
	}
}
