package memory

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/auth"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// kvServer serves keys and values.
type kvServer struct {
	pb.UnimplementedKVServer
	g *Gateway
}

// execute has a command executed by the active gateway.
func execute[A interface {
	proto.Message
	headed
}](ctx context.Context, g *Gateway, command *pb.InternalRaftRequest) (none A, err error) {
	if err := checkCommand(command); err != nil {
		return none, err
	}
	if err := g.sign(ctx, command); err != nil {
		return none, rpcError(err)
	}
	encoded, err := keyspace.Encode(command)
	if err != nil {
		return none, err
	}
	if len(encoded) > g.o.MaxRequestBytes {
		return none, rpctypes.ErrGRPCRequestTooLarge
	}
	a, err := await(ctx, g, func(to destination) (A, error) {
		switch {
		case to.lead != nil:
			message, err := to.lead.propose(ctx, command)
			if err != nil {
				return none, rpcError(err)
			}
			return message.(A), nil
		case to.relay != nil:
			return relayTo[A](ctx, to.relay, encoded)
		}
		return none, errNotActive
	})
	return complete(g, a, err)
}

// relayTo has the active gateway execute a command.
func relayTo[A proto.Message](ctx context.Context, r *relay, command []byte) (none A, err error) {
	response, err := r.perform(ctx, command)
	if err != nil {
		return none, err
	}
	a := none.ProtoReflect().New().Interface().(A)
	if err := proto.Unmarshal(response, a); err != nil {
		return none, err
	}
	return a, nil
}

// Put implements etcd's API.
func (s *kvServer) Put(ctx context.Context, q *pb.PutRequest) (*pb.PutResponse, error) {
	return execute[*pb.PutResponse](ctx, s.g, &pb.InternalRaftRequest{Put: q})
}

// DeleteRange implements etcd's API.
func (s *kvServer) DeleteRange(ctx context.Context, q *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return execute[*pb.DeleteRangeResponse](ctx, s.g, &pb.InternalRaftRequest{DeleteRange: q})
}

// Compact implements etcd's API.
func (s *kvServer) Compact(ctx context.Context, q *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	return execute[*pb.CompactionResponse](ctx, s.g, &pb.InternalRaftRequest{Compaction: q})
}

// Txn implements etcd's API.
func (s *kvServer) Txn(ctx context.Context, q *pb.TxnRequest) (*pb.TxnResponse, error) {
	if !txn.IsTxnReadonly(q) {
		return execute[*pb.TxnResponse](ctx, s.g, &pb.InternalRaftRequest{Txn: q})
	}
	if err := checkTxn(q); err != nil {
		return nil, err
	}
	own := serializable(q)
	if err := s.g.reserve(ctx, own, func(space *keyspace.Keyspace) int64 { return space.TxnReads(q) }); err != nil {
		return nil, err
	}
	a, err := read(ctx, s.g, q, own, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		return space.PermitTxn(user, q)
	}, func(space *keyspace.Keyspace) (*pb.TxnResponse, error) {
		if err := space.CheckReads(q); err != nil {
			return nil, err
		}
		a, _, err := txn.Txn(ctx, zap.NewNop(), q, true, space.Store(), space.Leases(), false)
		return a, err
	}, func(c *grpc.ClientConn) func(context.Context, *pb.TxnRequest, ...grpc.CallOption) (*pb.TxnResponse, error) {
		return pb.NewKVClient(c).Txn
	})
	return complete(s.g, a, err)
}

// serializable reports whether a transaction that only reads may be answered from this gateway's own copy: if all
// that it asks for are serializable reads. Comparisons ask for the present state, and so does a transaction without
// operations, which etcd answers from its own copy.
func serializable(q *pb.TxnRequest) bool {
	return len(q.Compare) == 0 && len(q.Success) > 0 && txn.IsTxnSerializable(q)
}

// errHistory: gateways may have different histories, and a command must have the same effect in all of them.
var errHistory = status.Error(codes.Unimplemented,
	"netcraq: a transaction that writes cannot read an earlier revision in a memory keyspace")

// Range implements etcd's API.
func (s *kvServer) Range(ctx context.Context, q *pb.RangeRequest) (*pb.RangeResponse, error) {
	found, err := s.find(ctx, q)
	if err != nil {
		return nil, err
	}
	return found.Message()
}

// serveRange answers a range. A client gets the objects as the store has them.
func (s *kvServer) serveRange(down grpc.ServerStream) error {
	q := new(pb.RangeRequest)
	if err := down.RecvMsg(q); err != nil {
		return err
	}
	found, err := s.find(withReserver(down), q)
	if err != nil {
		return err
	}
	if _, encodes := down.(reserver); encodes {
		return down.SendMsg(found)
	}
	a, err := found.Message()
	if err != nil {
		return err
	}
	return down.SendMsg(a)
}

// find answers a range. If its size is not known, or the answer is made elsewhere, it is measured before; otherwise it
// is counted when it is sent.
func (s *kvServer) find(ctx context.Context, q *pb.RangeRequest) (*keyspace.Found, error) {
	if err := checkRange(q); err != nil {
		return nil, err
	}
	found, err := s.look(ctx, q, keyspace.FewObjects)
	if err == nil && !found.Answered() {
		reads := func(space *keyspace.Keyspace) int64 { return space.RangeReads(q) }
		if err := s.g.reserve(ctx, q.Serializable, reads); err != nil {
			return nil, err
		}
		found, err = s.look(ctx, q, 0)
	}
	return complete(s.g, found, err)
}

// look answers a range, unless most is not 0 and [keyspace.Keyspace.Find] or another gateway would have more objects.
func (s *kvServer) look(ctx context.Context, q *pb.RangeRequest, most int64) (*keyspace.Found, error) {
	return read(ctx, s.g, q, q.Serializable, func(space *keyspace.Keyspace, user *auth.AuthInfo) error {
		return space.Auth().IsRangePermitted(user, q.Key, q.RangeEnd)
	}, func(space *keyspace.Keyspace) (*keyspace.Found, error) {
		return space.Find(ctx, q, most)
	}, func(c *grpc.ClientConn) func(context.Context, *pb.RangeRequest, ...grpc.CallOption) (*keyspace.Found, error) {
		return func(ctx context.Context, q *pb.RangeRequest, o ...grpc.CallOption) (*keyspace.Found, error) {
			if most > 0 && len(q.RangeEnd) > 0 && !q.CountOnly {
				return new(keyspace.Found), nil
			}
			a, err := pb.NewKVClient(c).Range(ctx, q, o...)
			return keyspace.FoundOf(a), err
		}
	})
}

// reserver is a call that counts an answer before it is made: see [grpcserver.Call.Reserve].
type reserver interface{ Reserve(size func() int) error }

type reserverKey struct{}

// withReserver returns the context of a call's handler.
func withReserver(down grpc.ServerStream) context.Context {
	if r, ok := down.(reserver); ok {
		return context.WithValue(down.Context(), reserverKey{}, r)
	}
	return down.Context()
}

// reserve waits until the answer to a read may be made. reads returns how much memory it takes, by this gateway's copy, also
// if another gateway makes the answer. Nothing of the copy is in use while reserve waits for the client.
func (g *Gateway) reserve(ctx context.Context, serializable bool, reads func(*keyspace.Keyspace) int64) error {
	r, ok := ctx.Value(reserverKey{}).(reserver)
	if !ok {
		return nil
	}
	if serializable || g.disk != nil { // otherwise another gateway may answer while this one has no copy
		if err := g.known(ctx); err != nil {
			return err
		}
	}
	return r.Reserve(func() int {
		space, done, err := g.present()
		if err != nil {
			return 0 // the read will say what is wrong
		}
		defer done()
		return int(reads(space))
	})
}

// read answers a read: a serializable one from this gateway's copy, another one from the active gateway's. That one
// makes sure after the read that it was still active. In a keyspace on disks each gateway's copy answers, after one look
// at the log's end.
func read[Q, A any](ctx context.Context, g *Gateway, q Q, serializable bool, check permission,
	look func(*keyspace.Keyspace) (A, error),
	remote func(*grpc.ClientConn) func(context.Context, Q, ...grpc.CallOption) (A, error)) (none A, err error) {
	look = permitted(ctx, g, check, look)
	if serializable || g.disk != nil {
		if err := g.known(ctx); err != nil {
			return none, err
		}
		if !serializable {
			if err := g.readOnDisk(ctx); err != nil {
				return none, err
			}
		}
		space, done, err := g.present()
		if err != nil {
			return none, err
		}
		defer done()
		a, err := look(space)
		return a, rpcError(err)
	}
	return route(ctx, g, func(ctx context.Context, l *leader) (A, error) {
		if err := l.barrier.wait(ctx, l.ctx); err != nil {
			return none, err
		}
		done, ok := l.space.Use()
		if !ok {
			return none, errNotActive
		}
		defer done()
		return lookNow(l, look)
	}, func(ctx context.Context, conn *grpc.ClientConn, o ...grpc.CallOption) (A, error) {
		return remote(conn)(ctx, q, o...)
	})
}
