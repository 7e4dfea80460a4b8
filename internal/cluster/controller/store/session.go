package store

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// defaultTTL is that of a leadership, in seconds: etcd has no finer ones. It matters only if a leader is cut off: a process that has
// ended is found out sooner. It is longer than a busy machine keeps a process waiting.
const defaultTTL = 2

// session keeps the etcd lease alive to which the key of a leadership is bound. A controller that is cut off from etcd stops
// leading.
type session struct {
	store *Store
	ttl   int64

	mu    sync.Mutex
	lease clientv3.LeaseID // [clientv3.NoLease]: there is none
}

// keep has a lease, and gets another when one ends, until ctx ends.
func (s *session) keep(ctx context.Context) {
	for ctx.Err() == nil {
		var lease clientv3.LeaseID
		err := s.store.retry(ctx, partSession, func(try context.Context) error {
			granted, err := s.store.client.Grant(try, s.ttl)
			if err == nil {
				lease = granted.ID
			}
			return err
		})
		if err != nil {
			return
		}
		s.keepAlive(ctx, lease)
	}
}

// keepAlive keeps one lease alive. When ctx ends it is revoked, so that others need not wait for its end.
func (s *session) keepAlive(ctx context.Context, lease clientv3.LeaseID) {
	alive, end := context.WithCancel(context.Background())
	defer end()
	renewals, err := s.store.client.KeepAlive(alive, lease)
	if err != nil {
		return
	}
	s.set(lease)
	defer s.set(clientv3.NoLease)
	for {
		select {
		case _, ok := <-renewals:
			if !ok {
				s.store.report(partSession, errors.New("the controller's lease could not be renewed in time"))
				return
			}
		case <-ctx.Done():
			try, cancel := context.WithTimeout(context.Background(), tryMin)
			defer cancel()
			_, _ = s.store.client.Revoke(try, lease) // it ends by itself soon
			return
		}
	}
}

func (s *session) set(lease clientv3.LeaseID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = lease
}

// current waits for a lease.
func (s *session) current(ctx context.Context) (clientv3.LeaseID, error) {
	for {
		s.mu.Lock()
		lease := s.lease
		s.mu.Unlock()
		if lease != clientv3.NoLease {
			return lease, nil
		}
		select {
		case <-ctx.Done():
			return clientv3.NoLease, ctx.Err()
		case <-time.After(pauseMin):
		}
	}
}
