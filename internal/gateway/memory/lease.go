package memory

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/lease"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// leaseServer serves leases. The active gateway measures their time.
type leaseServer struct {
	pb.UnimplementedLeaseServer
	g *Gateway
}

// LeaseGrant implements etcd's API.
func (s *leaseServer) LeaseGrant(ctx context.Context, q *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	for q.ID == 0 {
		q.ID = rand.Int64()
	}
	return execute[*pb.LeaseGrantResponse](ctx, s.g, &pb.InternalRaftRequest{LeaseGrant: q})
}

// LeaseRevoke implements etcd's API.
func (s *leaseServer) LeaseRevoke(ctx context.Context, q *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return execute[*pb.LeaseRevokeResponse](ctx, s.g, &pb.InternalRaftRequest{LeaseRevoke: q})
}

// LeaseTimeToLive implements etcd's API.
func (s *leaseServer) LeaseTimeToLive(ctx context.Context, q *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse,
	error) {
	look := permitted(ctx, s.g, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		err := someUser(space, user)
		if err == nil && q.Keys {
			err = space.PermitLease(user, q.ID, readable(space))
		}
		return err
	}, func(space *keyspace.Keyspace) (*pb.LeaseTimeToLiveResponse, error) {
		a := &pb.LeaseTimeToLiveResponse{Header: new(pb.ResponseHeader), ID: q.ID, TTL: -1}
		if found := space.Leases().Lookup(lease.LeaseID(q.ID)); found != nil {
			a.GrantedTTL, a.TTL = found.TTL(), int64(found.Remaining().Seconds())
			if q.Keys {
				for _, key := range found.Keys() {
					a.Keys = append(a.Keys, []byte(key))
				}
			}
		}
		return a, nil
	})
	a, err := route(ctx, s.g, func(_ context.Context, l *leader) (*pb.LeaseTimeToLiveResponse, error) {
		return lookNow(l, look)
	}, func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
		return pb.NewLeaseClient(c).LeaseTimeToLive(ctx, q, o...)
	})
	return complete(s.g, a, err)
}

// LeaseLeases implements etcd's API.
func (s *leaseServer) LeaseLeases(ctx context.Context, q *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	look := permitted(ctx, s.g, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		err := someUser(space, user)
		for _, l := range space.Leases().Leases() {
			if err == nil {
				err = space.PermitLease(user, int64(l.ID), readable(space))
			}
		}
		return err
	}, func(space *keyspace.Keyspace) (*pb.LeaseLeasesResponse, error) {
		a := &pb.LeaseLeasesResponse{Header: new(pb.ResponseHeader)}
		for _, known := range space.Leases().Leases() {
			a.Leases = append(a.Leases, &pb.LeaseStatus{ID: int64(known.ID)})
		}
		return a, nil
	})
	a, err := route(ctx, s.g, func(_ context.Context, l *leader) (*pb.LeaseLeasesResponse, error) {
		return lookNow(l, look)
	}, func(ctx context.Context, c *grpc.ClientConn, o ...grpc.CallOption) (*pb.LeaseLeasesResponse, error) {
		return pb.NewLeaseClient(c).LeaseLeases(ctx, q, o...)
	})
	return complete(s.g, a, err)
}

// readable returns a check that a user may read a key.
func readable(space *keyspace.Keyspace) func(*auth.AuthInfo, []byte) error {
	return func(user *auth.AuthInfo, key []byte) error { return space.Auth().IsRangePermitted(user, key, nil) }
}

// lookNow looks into the active gateway's copy. It makes sure afterwards that the gateway was still active.
func lookNow[A any](l *leader, look func(*keyspace.Keyspace) (A, error)) (none A, err error) {
	a, err := look(l.space)
	if !l.isActive() {
		return none, errNotActive
	}
	return a, rpcError(err)
}

// admit checks that a user may write all keys of a lease that it renews.
func (k *keeper) admit(ctx context.Context, space *keyspace.Keyspace, id int64) error {
	return k.g.admit(ctx, space, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		if err := someUser(space, user); err != nil {
			return err
		}
		return space.PermitLease(user, id, space.Auth().IsPutPermitted)
	})
}

// LeaseKeepAlive implements etcd's API.
func (s *leaseServer) LeaseKeepAlive(down pb.Lease_LeaseKeepAliveServer) error {
	up := &keeper{g: s.g}
	defer up.close()
	for {
		q, err := down.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return interrupted(err)
		}
		if err := up.admit(down.Context(), s.g.current(), q.ID); err != nil {
			return err
		}
		a, err := up.renew(down.Context(), q)
		if err == nil {
			err = down.Send(a)
		}
		if err != nil {
			return interrupted(err)
		}
	}
}

// interrupted is how a stream ends after an error that is not the client's: the client opens it again.
func interrupted(err error) error {
	if errors.Is(err, errNotActive) {
		return rpctypes.ErrGRPCNoLeader
	}
	return rpctypes.ErrGRPCStopped
}

// keeper renews leases for one stream, here or by a stream to the active gateway.
type keeper struct {
	g      *Gateway
	conn   *grpc.ClientConn
	up     pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func (k *keeper) close() {
	if k.cancel != nil {
		k.cancel()
	}
	k.conn, k.up, k.cancel = nil, nil, nil
}

func (k *keeper) renew(ctx context.Context, q *pb.LeaseKeepAliveRequest) (*pb.LeaseKeepAliveResponse, error) {
	a, err := route(ctx, k.g, func(_ context.Context, l *leader) (*pb.LeaseKeepAliveResponse, error) {
		if err := k.admit(ctx, l.space, q.ID); err != nil {
			return nil, err
		}
		// The revision is that before the renewal, so a lease that the client sees renewed was not revoked before it.
		a := &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{Revision: l.space.Revision()}, ID: q.ID}
		ttl, err := l.space.Leases().Renew(lease.LeaseID(q.ID))
		switch {
		case errors.Is(err, lease.ErrLeaseNotFound):
			ttl = 0
		case err != nil:
			return nil, rpcError(err)
		}
		if !l.isActive() {
			return nil, errNotActive
		}
		a.TTL = ttl
		return a, nil
	}, func(ctx context.Context, c *grpc.ClientConn, _ ...grpc.CallOption) (*pb.LeaseKeepAliveResponse, error) {
		if k.conn != c {
			k.close()
			named, err := k.g.naming(ctx)
			if err != nil {
				return nil, err
			}
			upward, cancel := context.WithCancel(named)
			up, err := pb.NewLeaseClient(c).LeaseKeepAlive(upward)
			if err != nil {
				cancel()
				return nil, errNotActive
			}
			k.conn, k.up, k.cancel = c, up, cancel
		}
		if err := k.up.Send(q); err != nil {
			k.close()
			return nil, errNotActive
		}
		a, err := k.up.Recv()
		if err != nil { // a renewal can be repeated
			k.close()
			return nil, errNotActive
		}
		return a, nil
	})
	return complete(k.g, a, err)
}
