package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/locks"
	"github.com/netcraq/netcraq/internal/gateway/progress"
	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// serveCalls makes the server of clients' calls, and of pages over HTTP/2. Reads that the cache can answer have no
// goroutine of their own.
func (s *Server) serveCalls(page http.Handler) (*grpcserver.Server, error) {
	f := &forwarder{
		conn: s.conn.ClientConn, codec: newCodec(), cache: s.cache, txns: engine.NewTxns(s.conn.ClientConn), shown: new(progress.Mark),
		latency: s.latency,
	}
	if s.cache != nil {
		f.locks = locks.New(f.codec, ownFirst, f.handle)
		s.locks = f.locks
	}
	own, err := reflections()
	if err != nil {
		return nil, fmt.Errorf("the descriptions of etcd's services: %w", err)
	}
	if s.options.Advertise != "" {
		own[methodMemberList] = func(down grpc.ServerStream) error { return f.listMembers(s.options.Advertise, down) }
	}
	return grpcserver.New(grpcserver.Options{
		Codec: f.codec, Unary: isUnary, Waits: locks.Waits, Begin: f.begin, PingEvery: serve.PingEvery,
		PingTimeout: serve.PingTimeout, Memory: s.memory,
		Page: page, MaxMessageBytes: s.options.MaxRequestBytes + serve.OverheadBytes,
		Handle: func(method string, down grpc.ServerStream) error {
			if isUnary(method) && !locks.Waits(method) {
				defer s.latency.etcd.Observe(method, time.Now())
			}
			if answer := own[method]; answer != nil {
				return answer(down)
			}
			return f.handle(method, down)
		},
	}), nil
}

const methodMemberList = "/etcdserverpb.Cluster/MemberList"

// begin takes a read that the cache may answer.
func (f *forwarder) begin(c *grpcserver.Call, method string, message []byte) bool {
	if f.cache == nil || method != methodRange || hasToken(c.Metadata()) {
		return false
	}
	key, ok := plainRead(message)
	return ok && f.cache.Begin(string(key), &quickRead{c, bytes.Clone(message), f, time.Now()})
}

// quickRead is a read that waits for the chain.
type quickRead struct {
	*grpcserver.Call
	message []byte
	from    *forwarder
	began   time.Time
}

// Answer answers the read.
func (r *quickRead) Answer(message []byte) {
	r.from.shown.Raise(headerRevision(message))
	r.Call.Answer(message)
	r.from.latency.chain.Observe(methodRange, r.began)
}

// Pass has etcd answer the read.
func (r *quickRead) Pass() { r.Call.Pass(r.message) }

// Fields of a RangeRequest.
const (
	fieldKey   = 1
	fieldLimit = 3
)

// plainRead is the key of an encoded RangeRequest that has a key and perhaps a limit, and nothing else.
func plainRead(message []byte) (key []byte, ok bool) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		switch {
		case number == fieldKey && kind == protowire.BytesType:
			key, n = protowire.ConsumeBytes(message)
		case number == fieldLimit && kind == protowire.VarintType:
			var limit uint64
			if limit, n = protowire.ConsumeVarint(message); int64(limit) < 0 {
				return nil, false
			}
		default:
			return nil, false
		}
		if n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return key, len(key) > 0
}

// reflections answers the calls of gRPC's reflection.
func reflections() (map[string]func(grpc.ServerStream) error, error) {
	names := make(map[string]bool)
	for name := range (services{}).GetServiceInfo() {
		names[name] = true
	}
	files, err := described(names)
	if err != nil {
		return nil, err
	}
	o := reflection.ServerOptions{Services: services{}, DescriptorResolver: files}
	handlers := make(map[string]func(grpc.ServerStream) error)
	for _, r := range []struct {
		service *grpc.ServiceDesc
		server  any
	}{
		{&grpc_reflection_v1.ServerReflection_ServiceDesc, reflection.NewServerV1(o)},
		{&grpc_reflection_v1alpha.ServerReflection_ServiceDesc, reflection.NewServer(o)},
	} {
		for _, stream := range r.service.Streams {
			handlers["/"+r.service.ServiceName+"/"+stream.StreamName] = func(down grpc.ServerStream) error {
				return stream.Handler(r.server, down)
			}
		}
	}
	return handlers, nil
}

// services are the services that calls are passed on to, for reflection.
type services struct{}

func (services) GetServiceInfo() map[string]grpc.ServiceInfo {
	info := map[string]grpc.ServiceInfo{"etcdserverpb.Watch": {}}
	for name := range unary {
		info[name] = grpc.ServiceInfo{}
	}
	return info
}

// listMembers answers MemberList with the gateway itself, so that clients that look for members do not pass it by. It
// keeps the header of etcd's answer, and etcd's errors.
func (f *forwarder) listMembers(url string, down grpc.ServerStream) error {
	var in pb.MemberListRequest
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	all, err := pb.NewClusterClient(f.conn).MemberList(onward(down.Context()), &in)
	if err != nil {
		return err
	}
	if f.cache != nil {
		if err := f.cache.Reveal(down.Context(), core.Answers, all.GetHeader().GetRevision()); err != nil {
			return err
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	return down.SendMsg(&pb.MemberListResponse{
		Header: all.Header, Members: []*pb.Member{{Name: name, ClientURLs: []string{url}}},
	})
}
