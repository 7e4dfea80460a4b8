package migration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

const (
	// near is how many revisions a copy may be behind the etcd when this is closed.
	near = 1000
	// askedAtOnce is how many leases the etcd is asked about at once.
	askedAtOnce = 64
)

// Copy copies the etcd and closes it for its clients. The copy has every write that they were acknowledged, and every
// lease. After an error the etcd is open again, or the error says how to open it.
func (e *Etcd) Copy(ctx context.Context) (_ *keyspace.Snapshot, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Reopen(ctx))
		}
	}()
	s, err := e.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("a snapshot of %s: %w", e.source, err)
	}
	if err := e.approach(ctx, s); err != nil {
		return nil, err
	}
	closed := time.Now()
	c, err := e.shut(ctx)
	if err != nil {
		return nil, fmt.Errorf("the etcd could not be closed for its clients: %w", err)
	}
	defer c.Close() //nolint:errcheck // its calls have ended
	if err := e.finish(ctx, c, s); err != nil {
		return nil, err
	}
	e.o.Log.Info("the copy is complete", "revision", s.Revision(), "leases", s.Leases(),
		"closing took", time.Since(closed).Round(time.Millisecond))
	return s, nil
}

// snapshot gets the state of the copied member.
func (e *Etcd) snapshot(ctx context.Context) (*keyspace.Snapshot, error) {
	dir, err := os.MkdirTemp(e.o.Dir, "etcd-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the copy is complete without
	path, began := dir+"/snapshot", time.Now()
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), e.at("", ""), path); err != nil {
		return nil, err
	}
	s, err := keyspace.ReadFile(path, false)
	if err == nil {
		e.o.Log.Info("the etcd's snapshot is copied", "revision", s.Revision(), "after", time.Since(began).Round(time.Millisecond))
	}
	return s, err
}

// approach follows the etcd until the copy is near its revision.
func (e *Etcd) approach(ctx context.Context, s *keyspace.Snapshot) error {
	for {
		revision, err := e.newest(ctx, e.client)
		if err != nil || revision-s.Revision() <= near {
			return err
		}
		e.o.Log.Info("the copy follows the etcd", "revision", s.Revision(), "behind", revision-s.Revision())
		if err := follow(ctx, e.client, s, revision); err != nil {
			return err
		}
	}
}

// finish takes the last writes of a closed etcd, and its leases, from the copied member.
func (e *Etcd) finish(ctx context.Context, c *clientv3.Client, s *keyspace.Snapshot) error {
	if _, err := e.newest(ctx, c); err != nil { // the member has applied all before, leases included
		return err
	}
	if err := copyLeases(ctx, c, s); err != nil {
		return err
	}
	// A lease that has ended since has deleted its keys before this revision, or its end is not part of the copy.
	revision, err := e.newest(ctx, c)
	if err != nil {
		return err
	}
	return follow(ctx, c, s, revision)
}

// follow adds the changes up to a revision, at least.
func follow(ctx context.Context, c *clientv3.Client, s *keyspace.Snapshot, revision int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.Revision() >= revision {
		return nil
	}
	next := clientv3.WithRev(s.Revision() + 1)
	for r := range c.Watch(clientv3.WithRequireLeader(ctx), "", clientv3.WithPrefix(), next) {
		switch err := r.Err(); {
		case errors.Is(err, rpctypes.ErrCompacted):
			return errors.New("the etcd was compacted beyond the copy: try again")
		case err != nil:
			return err
		}
		if err := s.Append(r.Events); err != nil {
			return fmt.Errorf("an event of the etcd: %w", err)
		}
		if s.Revision() >= revision {
			return nil
		}
	}
	return ctx.Err()
}

// copyLeases makes the copy's leases those of the etcd.
func copyLeases(ctx context.Context, c *clientv3.Client, s *keyspace.Snapshot) error {
	all, err := c.Leases(ctx)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	ttls := make(map[int64]int64, len(all.Leases))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askedAtOnce)
	for _, l := range all.Leases {
		group.Go(func() error {
			found, err := c.TimeToLive(ctx, l.ID)
			if err == nil && found.GrantedTTL > 0 { // else it has ended
				mu.Lock()
				defer mu.Unlock()
				ttls[int64(l.ID)] = found.GrantedTTL
			}
			return err
		})
	}
	err = group.Wait()
	s.SetLeases(ttls)
	return err
}
