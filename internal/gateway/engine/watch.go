package engine

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

var errCompacted = errors.New("etcd compacted revisions that the watch has not seen")

// follow watches a range of keys from a revision on, through any number of streams, until ctx ends or etcd has no such revision any
// more. A member without a leader is left.
func (e *Engine) follow(ctx context.Context, key, end string, from int64, take func([]*mvccpb.Event)) error {
	for ctx.Err() == nil {
		next, err := e.followOnce(ctx, key, end, from, take)
		if errors.Is(err, errCompacted) {
			return err
		}
		from = next
		retry.Sleep(ctx, again)
	}
	return ctx.Err()
}

func (e *Engine) followOnce(ctx context.Context, key, end string, from int64, take func([]*mvccpb.Event)) (next int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	stream, err := pb.NewWatchClient(e.o.Etcd).Watch(ctx)
	if err != nil {
		return from, err
	}
	create := &pb.WatchCreateRequest{Key: []byte(key), StartRevision: from}
	if end != "" {
		create.RangeEnd = []byte(end)
	}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		return from, err
	}
	for {
		answer, err := stream.Recv()
		switch {
		case err != nil:
			return from, err
		case answer.CompactRevision > 0:
			return from, errCompacted
		case answer.Canceled:
			return from, errors.New(answer.CancelReason)
		case len(answer.Events) == 0:
			continue
		}
		from = answer.Events[len(answer.Events)-1].Kv.ModRevision + 1
		take(answer.Events)
	}
}

// watchDirectory hands over changes of the directory.
func (e *Engine) watchDirectory(ctx context.Context, from int64) {
	span := core.DirectorySpan(OwnPrefix)
	err := e.follow(ctx, span.From, span.End, from, func(events []*mvccpb.Event) {
		var changes []core.Change
		for _, event := range events { // a deleted key has no value
			kv := event.Kv
			if c, is := core.ChangeOf(OwnPrefix, string(kv.Key), string(kv.Value), kv.ModRevision); is {
				changes = append(changes, c)
			}
		}
		e.do(func(g *core.Gateway) {
			if ctx.Err() != nil {
				return
			}
			sure := !g.Unsure()
			if g.DirectoryChanged(events[len(events)-1].Kv.ModRevision, changes); sure && g.Unsure() {
				const text = "the gateways' directory was changed by a client of etcd, or is of another timeline: " +
					"no key is cached until it is emptied"
				e.o.Log.Error(text, "keys", OwnPrefix)
			}
		})
	})
	if errors.Is(err, errCompacted) {
		e.renew(ctx)
	}
}

// renew ends the session and begins another, which reads the directory anew. From here on no read is answered under the
// session that ends: other gateways do not wait for it any more as soon as etcd has revoked its lease.
func (e *Engine) renew(ctx context.Context) {
	e.mu.Lock()
	l := e.leases[e.core.Lease()]
	if l != nil {
		l.ending = true
		e.until.Store(0)
	}
	e.mu.Unlock()
	for l != nil && ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, ownWithin)
		_, err := pb.NewLeaseClient(e.o.Etcd).LeaseRevoke(within, &pb.LeaseRevokeRequest{ID: l.id.Load()})
		cancel()
		if err == nil || noLease(err) {
			e.do(func(g *core.Gateway) { g.SessionLost(l.name) })
			return
		}
		retry.Sleep(ctx, time.Second)
	}
}
