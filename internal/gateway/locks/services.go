// Package locks serves etcd's services for locks and elections at a gateway.
package locks

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Services are etcd's services for locks and elections. A gateway executes them itself, with etcd's own code, over a
// client whose calls take the path of clients' calls: so each passes the gateway's checks. etcd's member would make the
// transactions of these services itself, and a gateway that passes them on would see no write. Calls enter by channels:
// over a connection to the gateway's own port, waiting calls could keep out those that they wait for. A gateway that
// caches refuses methods that it does not know.
type Services struct {
	// Handle executes a call of a client of this gateway.
	Handle func(method string, down grpc.ServerStream) error
	Calls  map[string]Call // by method
	Descs  []*grpc.ServiceDesc

	client *clientv3.Client
	own    *inside
	codec  encoding.CodecV2
	probe  []byte
}

// Call is a method of the services.
type Call struct {
	Unary  bool // it has one answer
	Answer func(down grpc.ServerStream) error
}

// New makes the services. codec is that of the messages which handle receives and sends. probe is a key that a
// serializable read may ask for.
func New(codec encoding.CodecV2, probe []byte, handle func(method string, down grpc.ServerStream) error) *Services {
	s := &Services{
		Handle: handle, client: clientv3.NewCtxClient(context.Background()), codec: codec, probe: probe,
		Calls: make(map[string]Call),
	}
	s.own = &inside{s}
	s.client.KV = clientv3.NewKVFromKVClient(pb.NewKVClient(s.own), s.client)
	s.client.Lease = orphaned{clientv3.NewLeaseFromLeaseClient(pb.NewLeaseClient(s.own), s.client, 0)}
	s.client.Watcher = clientv3.NewWatchFromWatchClient(pb.NewWatchClient(s.own), s.client)
	s.add(&v3lockpb.Lock_ServiceDesc, v3lock.NewLockServer(s.client))
	s.add(&v3electionpb.Election_ServiceDesc, v3election.NewElectionServer(s.client))
	return s
}

// Waits reports whether a unary method may wait for long.
func Waits(method string) bool {
	return method == v3lockpb.Lock_Lock_FullMethodName || method == v3electionpb.Election_Campaign_FullMethodName
}

// Close ends the calls that the services make.
func (s *Services) Close() { _ = s.client.Close() } // its error is that of the context that it ends

// Ending is called when the calls of clients begin to be cut off. The services may clean up after these until end is
// called, or for d at most.
func (s *Services) Ending(d time.Duration) (end func()) {
	cleaned := time.AfterFunc(d, s.Close)
	return func() { cleaned.Stop(); s.Close() }
}

// add adds the calls of a service.
func (s *Services) add(desc *grpc.ServiceDesc, server any) {
	s.Descs = append(s.Descs, desc)
	for _, m := range desc.Methods {
		s.Calls["/"+desc.ServiceName+"/"+m.MethodName] = Call{true, func(down grpc.ServerStream) error {
			ctx, err := s.unary(down.Context())
			if err != nil {
				return err
			}
			answer, err := m.Handler(server, ctx, down.RecvMsg, nil)
			if err != nil {
				return err
			}
			return down.SendMsg(answer)
		}}
	}
	for _, m := range desc.Streams {
		s.Calls["/"+desc.ServiceName+"/"+m.StreamName] = Call{false, func(down grpc.ServerStream) error {
			ctx := inward(down.Context(), true)
			err := m.Handler(server, &within{down, ctx})
			if err == nil && RequiresLeader(ctx) { // the answers have ended, perhaps for want of a leader
				return s.leader(ctx)
			}
			return err
		}}
	}
}

// unary returns the context in which a unary call is executed. etcd looks for a leader once, when such a call begins.
func (s *Services) unary(ctx context.Context) (context.Context, error) {
	if RequiresLeader(ctx) {
		if err := s.leader(inward(ctx, true)); err != nil {
			return nil, err
		}
	}
	return inward(ctx, false), nil
}

// leader returns etcd's error if the member that is asked has no leader. The read itself needs none, and the client may
// lack the permission for it.
func (s *Services) leader(ctx context.Context) error {
	_, err := pb.NewKVClient(s.own).Range(ctx, &pb.RangeRequest{Key: s.probe, CountOnly: true, Serializable: true})
	switch status.Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return nil
	}
	return err
}

// RequiresLeader reports whether a client has asked that its call fails without a leader.
func RequiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	values := md[rpctypes.MetadataRequireLeaderKey]
	return len(values) > 0 && values[0] == rpctypes.MetadataHasLeader
}

// inward returns a client's context for the calls that a service makes: with the client's token, and perhaps its demand for a leader.
// The outgoing metadata tells the client of etcd which watches may share a stream: those of one user, who may be known
// by a certificate.
func inward(ctx context.Context, leader bool) context.Context {
	all, _ := metadata.FromIncomingContext(ctx)
	md := make(metadata.MD)
	for _, key := range []string{rpctypes.TokenFieldNameGRPC, rpctypes.TokenFieldNameSwagger} {
		if values := all[key]; len(values) > 0 {
			md[key] = values
		}
	}
	if leader && RequiresLeader(ctx) {
		md.Set(rpctypes.MetadataRequireLeaderKey, rpctypes.MetadataHasLeader)
	}
	outgoing := md.Copy()
	if p, ok := peer.FromContext(ctx); ok {
		if secure, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			for _, chain := range secure.State.VerifiedChains {
				outgoing.Append(certificateKey, chain[0].Subject.CommonName)
			}
		}
	}
	return metadata.NewOutgoingContext(metadata.NewIncomingContext(ctx, md), outgoing)
}

// certificateKey is the key of the metadata that tells users with certificates apart.
const certificateKey = "netcraq-certificate-bin"

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
