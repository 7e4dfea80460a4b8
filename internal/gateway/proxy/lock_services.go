package proxy

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// lockServices are etcd's services that write keys on their own. A gateway that caches executes them itself, with etcd's own code, over
// a client whose calls take the path of clients' calls: so each write sets and clears the bits of placed keys.
type lockServices struct {
	client *clientv3.Client
	own    *inside
	calls  map[string]func(grpc.ServerStream) error
}

// newLockServices makes the services. handle executes a call of a client of this gateway.
func newLockServices(c codec, handle func(method string, down grpc.ServerStream) error) *lockServices {
	s := &lockServices{client: clientv3.NewCtxClient(context.Background()), own: &inside{c, handle}}
	s.client.KV = clientv3.NewKVFromKVClient(pb.NewKVClient(s.own), s.client)
	s.client.Lease = orphaned{clientv3.NewLeaseFromLeaseClient(pb.NewLeaseClient(s.own), s.client, 0)}
	s.client.Watcher = clientv3.NewWatchFromWatchClient(pb.NewWatchClient(s.own), s.client)
	s.calls = make(map[string]func(grpc.ServerStream) error)
	s.add(&v3lockpb.Lock_ServiceDesc, v3lock.NewLockServer(s.client))
	s.add(&v3electionpb.Election_ServiceDesc, v3election.NewElectionServer(s.client))
	return s
}

// close ends the calls that the services make.
func (s *lockServices) close() { _ = s.client.Close() } // its error is that of the context that it ends

// add adds the calls of a service.
func (s *lockServices) add(desc *grpc.ServiceDesc, server any) {
	for _, m := range desc.Methods {
		s.calls["/"+desc.ServiceName+"/"+m.MethodName] = func(down grpc.ServerStream) error {
			ctx, err := s.unary(down.Context())
			if err != nil {
				return err
			}
			answer, err := m.Handler(server, ctx, down.RecvMsg, nil)
			if err != nil {
				return err
			}
			return down.SendMsg(answer)
		}
	}
	for _, m := range desc.Streams {
		s.calls["/"+desc.ServiceName+"/"+m.StreamName] = func(down grpc.ServerStream) error {
			ctx := inward(down.Context(), true)
			err := m.Handler(server, &within{down, ctx})
			if err == nil && wantsLeader(ctx) { // the answers have ended, perhaps for want of a leader
				return s.leader(ctx)
			}
			return err
		}
	}
}

// unary returns the context in which a unary call is executed. etcd looks for a leader once, when such a call begins.
func (s *lockServices) unary(ctx context.Context) (context.Context, error) {
	if wantsLeader(ctx) {
		if err := s.leader(inward(ctx, true)); err != nil {
			return nil, err
		}
	}
	return inward(ctx, false), nil
}

// leader returns etcd's error if the member that is asked has no leader. The read itself needs none.
func (s *lockServices) leader(ctx context.Context) error {
	_, err := pb.NewKVClient(s.own).Range(ctx, &pb.RangeRequest{Key: ownFirst, CountOnly: true, Serializable: true})
	return err
}

// wantsLeader reports whether a client has asked that its call fails without a leader.
func wantsLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md[rpctypes.MetadataRequireLeaderKey]
	return len(values) > 0 && values[0] == rpctypes.MetadataHasLeader
}

// inward returns a client's context for the calls that a service makes: with the client's token, and perhaps its demand for a leader.
// The outgoing metadata tells the client of etcd which watches may share a stream.
func inward(ctx context.Context, leader bool) context.Context {
	all, _ := metadata.FromIncomingContext(ctx)
	md := make(metadata.MD)
	for _, key := range []string{rpctypes.TokenFieldNameGRPC, rpctypes.TokenFieldNameSwagger} {
		if values := all[key]; len(values) > 0 {
			md[key] = values
		}
	}
	if leader && wantsLeader(ctx) {
		md.Set(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	}
	return metadata.NewOutgoingContext(metadata.NewIncomingContext(ctx, md), md)
}

// within is a stream with another context.
type within struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (w *within) Context() context.Context { return w.ctx }

// orphaned keeps no lease alive. The services take a session of a client's lease, and give it up before the first keepalive: only
// the client extends its lease.
type orphaned struct{ clientv3.Lease }

// KeepAlive implements [clientv3.Lease].
func (orphaned) KeepAlive(ctx context.Context, _ clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	none := make(chan *clientv3.LeaseKeepAliveResponse)
	context.AfterFunc(ctx, func() { close(none) })
	return none, nil
}
