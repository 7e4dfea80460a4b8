package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Observe reports every durable change of a cluster's state to a follower, until ctx ends, which is no error. It reads the
// etcd at an address, such as an embedded one with a client port, and writes nothing. Unlike [Store.Follow], it continues
// after the last reported change when the connection is lost. It calls Loaded again only if etcd has compacted the changes
// after that one.
func Observe(ctx context.Context, cluster, address string, f Follower) error {
	client, err := newClient([]string{address}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	s := &Store{prefix: root + cluster + "/", cluster: cluster, client: client}
	var next *gathering
	for {
		if next == nil {
			next = s.begin(ctx, f)
		}
		if next != nil {
			err = s.watch(ctx, next, f)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, rpctypes.ErrCompacted):
			next = nil
		case errors.Is(err, ErrForeign) || errors.Is(err, ErrNewer):
			return fmt.Errorf("observe the state at %s: %w", address, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pauseMin):
		}
	}
}

// begin loads the state, if it can.
func (s *Store) begin(ctx context.Context, f Follower) *gathering {
	try, cancel := context.WithTimeout(ctx, tryMax)
	defer cancel()
	m, err := s.load(try)
	if err != nil || !m.formed {
		return nil
	}
	f.Loaded(m.formation, &m.state)
	f.Led(m.leader)
	return newGathering(s, m)
}
