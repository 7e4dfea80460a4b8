package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cluster/reconfig"
	"github.com/netcraq/netcraq/wire"
)

// maxOps is how many operations one transaction may have; etcd's default limit is 128.
const maxOps = 100

// Leadership is the right to change the state, until another controller takes it, or this one is cut off from etcd for
// longer than its lease there. The holder is notified as a [Follower], or when it writes.
type Leadership struct {
	Term  uint64         // grows with every leader
	State reconfig.State // as it was taken over; the caller's
	Keys  *wire.Keyring  // as they were taken over; nil: there are none yet

	store  *Store
	shards []reconfig.Shard
	formed Formation
	change string // the record of the last change
}

// Claim makes this controller the leader in place of the leader of term over; 0 if there is none. The caller should have a
// reason to assume that this leader is gone, but a wrong assumption does no harm. ErrTaken means that another controller
// leads meanwhile.
func (s *Store) Claim(ctx context.Context, over uint64, address string) (*Leadership, error) {
	l := &Leadership{store: s}
	key, mine := s.key("leader"), encode(leaderRecord{formatVersion, address, rand.Uint64()})
	err := s.retry(ctx, partWrite, func(try context.Context) error {
		lease, err := s.session.current(try) // each time: it may have run out meanwhile
		if err != nil {
			return err
		}
		response, err := s.client.Txn(try).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(over))).
			Then(clientv3.OpPut(key, mine, clientv3.WithLease(lease))).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		l.Term = uint64(response.Header.Revision)
		if !response.Succeeded {
			held := response.Responses[0].GetResponseRange().Kvs
			if len(held) == 0 || string(held[0].Value) != mine { // else an earlier attempt came through
				return ErrTaken
			}
			l.Term = uint64(held[0].ModRevision)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, l.takeOver(ctx)
}

// takeOver loads the state and writes an empty change, which completes a change that an earlier leader left half written.
func (l *Leadership) takeOver(ctx context.Context) error {
	var m *image
	err := l.store.retry(ctx, partWrite, func(try context.Context) (err error) {
		m, err = l.store.load(try)
		return err
	})
	if err != nil {
		return err
	}
	l.State, l.shards, l.formed, l.Keys = m.state, slices.Clone(m.state.Shards), m.formation, m.keyring
	if l.State.Change > 0 {
		l.change = encode(changeRecord{formatVersion, l.State.Change})
	}
	l.State.Change++
	return l.Apply(ctx, reconfig.Change{Number: l.State.Change})
}

// Apply makes a change durable. It tries until it succeeds, ctx ends, or the leadership is over (ErrDeposed). Changes are
// applied one at a time, in order.
func (l *Leadership) Apply(ctx context.Context, c reconfig.Change) error {
	ops := l.operations(&c)
	change := encode(changeRecord{formatVersion, c.Number})
	ops = append(ops, clientv3.OpPut(l.store.key("change"), change))
	for part := range slices.Chunk(ops, maxOps) {
		err := l.store.retry(ctx, partWrite, func(try context.Context) error { return l.write(try, part, change) })
		if err != nil {
			return err
		}
	}
	l.change = change
	return nil
}

// operations returns the writes of a change, and records them.
func (l *Leadership) operations(c *reconfig.Change) []clientv3.Op {
	pages := map[int]bool{}
	for number, shard := range c.Shards {
		l.shards[number] = shard
		pages[int(number)/pageShards] = true
	}
	var ops []clientv3.Op
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		first := page * pageShards
		shards := l.shards[first:min(first+pageShards, len(l.shards))]
		ops = append(ops, clientv3.OpPut(l.store.pageKey(page), encode(recordOfPage(shards))))
	}
	for i := range c.Nodes {
		ops = append(ops, clientv3.OpPut(l.store.nodeKey(c.Nodes[i].ID), encode(recordOfNode(&c.Nodes[i]))))
	}
	if c.Replicas != 0 || c.Times != (reconfig.Times{}) || c.Tags != (reconfig.TagStep{}) || c.Controllers.Since != 0 {
		l.formed.Settings.Replicas = cmp.Or(c.Replicas, l.formed.Settings.Replicas)
		if c.Times != (reconfig.Times{}) {
			l.formed.Settings.SetTimes(c.Times)
		}
		if c.Tags != (reconfig.TagStep{}) {
			l.formed.Settings.Tags = c.Tags
		}
		if c.Controllers.Since != 0 {
			l.formed.Controllers = c.Controllers
		}
		ops = append(ops, clientv3.OpPut(l.store.key("settings"), encode(recordOfFormation(&l.formed))))
	}
	return ops
}

// Resign ends the leadership, so that another controller can lead at once. If it fails, the controller's lease in etcd
// has to run out first.
func (l *Leadership) Resign(ctx context.Context) error {
	key := l.store.key("leader")
	_, err := l.store.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", int64(l.Term))).
		Then(clientv3.OpDelete(key)).Commit()
	return err
}

// write is one guarded transaction. It is done too if an earlier attempt at it came through.
func (l *Leadership) write(ctx context.Context, ops []clientv3.Op, change string) error {
	leader, number := l.store.key("leader"), l.store.key("change")
	leads := clientv3.Compare(clientv3.ModRevision(leader), "=", int64(l.Term))
	before := clientv3.Compare(clientv3.Value(number), "=", l.change)
	if l.change == "" {
		before = clientv3.Compare(clientv3.CreateRevision(number), "=", 0)
	}
	response, err := l.store.client.Txn(ctx).If(leads, before).Then(ops...).
		Else(clientv3.OpGet(leader), clientv3.OpGet(number)).Commit()
	if err != nil || response.Succeeded {
		return err
	}
	held, at := response.Responses[0].GetResponseRange().Kvs, response.Responses[1].GetResponseRange().Kvs
	switch {
	case len(held) == 0 || uint64(held[0].ModRevision) != l.Term:
		return ErrDeposed
	case len(at) == 1 && string(at[0].Value) == change:
		return nil
	}
	return errors.Join(ErrForeign, errors.New("somebody else changed the number of the last change in etcd"))
}
