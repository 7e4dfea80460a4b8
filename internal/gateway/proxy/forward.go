package proxy

import (
	"context"
	"errors"
	"io"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/locks"
	"github.com/netcraq/netcraq/internal/gateway/progress"
	"github.com/netcraq/netcraq/internal/gateway/recovery"
)

// duplex are the RPCs of etcd with more than one request. All others that are known have one.
var duplex = map[string]bool{
	"/etcdserverpb.Watch/Watch":          true,
	"/etcdserverpb.Lease/LeaseKeepAlive": true,
}

// single are the RPCs of etcd with one request and many answers.
var single = map[string]bool{
	"/etcdserverpb.KV/RangeStream":       true,
	"/etcdserverpb.Maintenance/Snapshot": true,
	"/v3electionpb.Election/Observe":     true,
	"/grpc.health.v1.Health/Watch":       true,
}

// unary are the services of which all other RPCs have one request and one answer.
var unary = map[string]bool{
	"etcdserverpb.KV": true, "etcdserverpb.Lease": true, "etcdserverpb.Cluster": true, "etcdserverpb.Maintenance": true,
	"etcdserverpb.Auth": true, "v3lockpb.Lock": true, "v3electionpb.Election": true, "grpc.health.v1.Health": true,
}

// stream describes a call of which nothing is known.
var stream = &grpc.StreamDesc{StreamName: "forward", ServerStreams: true, ClientStreams: true}

// forwarder passes calls on to etcd.
type forwarder struct {
	conn  *grpc.ClientConn
	codec codec
	cache *engine.Engine  // nil: nothing is cached
	ended *engine.Engine  // the cache has ended, and calls pass it by
	locks *locks.Services // with a cache, or one that ended: the services that the gateway executes itself
	txns  *engine.Txns
	shown *progress.Mark // newest revision that a client of this gateway was shown

	latency *latency
}

// handle passes on a call.
func (f *forwarder) handle(method string, down grpc.ServerStream) error {
	ctx := onward(down.Context())
	if f.cache != nil && service(method) == "etcdserverpb.Auth" {
		return f.auth(ctx, method, down)
	}
	if f.cache != nil {
		bypassed, err := f.cache.Bypassed(ctx)
		if err != nil {
			return err
		}
		if bypassed {
			f = f.past()
		}
	}
	switch {
	case f.locks == nil: // no gateway of this process caches
	case execution(method) == core.Served:
		return f.locks.Calls[method].Answer(down)
	case execution(method) == core.Refused && f.cache != nil:
		return status.Errorf(codes.Unimplemented, "gateway: %s is not known, and might write keys that are cached", method)
	}
	switch {
	case method == methodWatch:
		hiding := &watcher{ServerStream: down, codec: f.codec}
		return f.both(ctx, method, progress.New(hiding, watchFrames{f.codec}, f.shown.Newest))
	case method == methodRangeStream:
		return f.rangeStream(ctx, down)
	case single[method]:
		return f.many(ctx, method, down)
	case isUnary(method):
		return f.one(ctx, method, down)
	}
	return f.both(ctx, method, down)
}

// past passes calls by the cache, which has ended.
func (f *forwarder) past() *forwarder {
	return &forwarder{conn: f.conn, codec: f.codec, txns: f.txns, locks: f.locks, ended: f.cache, shown: f.shown, latency: f.latency}
}

// execution says how a gateway that caches executes a method.
func execution(method string) core.Execution {
	return core.ExecutionOf(service(method), method[strings.LastIndexByte(method, '/')+1:], 0)
}

// isUnary reports whether a method has one request and one answer.
func isUnary(method string) bool { return unary[service(method)] && !duplex[method] && !single[method] }

// service is the part of "/service/method" that names the service.
func service(method string) string {
	for i := len(method) - 1; i > 0; i-- {
		if method[i] == '/' {
			return method[1:i]
		}
	}
	return ""
}

// onward gives a call to etcd the client's metadata, its token among them.
func onward(ctx context.Context) context.Context {
	md, ok := metadata.FromIncomingContext(ctx)
	if !ok {
		return ctx
	}
	md = md.Copy()
	for _, key := range []string{":authority", "content-type", "user-agent", "te", "grpc-accept-encoding"} {
		md.Delete(key)
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// one passes on one request and one answer.
func (f *forwarder) one(ctx context.Context, method string, down grpc.ServerStream) error {
	var in, out frame
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	defer in.free()
	ctx = inTurn(ctx, down)
	if f.cache != nil {
		handled, err := f.cached(ctx, method, &in, down)
		switch {
		case errors.Is(err, engine.ErrUnguarded): // the cache has ended meanwhile
			f = f.past()
		case handled || err != nil:
			return err
		}
	}
	if f.ended != nil && execution(method) == core.Guarded {
		unguarded, cancel, err := f.ended.Unguarded(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		ctx = unguarded
	}
	if handled, err := f.around(ctx, method, &in, down); handled || err != nil {
		return err
	}
	defer out.free()
	if err := f.invoke(ctx, method, &in, &out, down); err != nil {
		return err
	}
	return f.answer(ctx, method, &out, down)
}

// inTurn returns a context for a call of etcd in place of a client's. Its answer is received when it is the client's turn.
func inTurn(ctx context.Context, down grpc.ServerStream) context.Context {
	if call, ok := down.(*grpcserver.Call); ok {
		return engine.WithReceive(ctx, call.Receive)
	}
	return ctx
}

// auth passes on a call about users and tokens, which reads and writes no keys, at once: clients wait less for a token than
// others must wait when authentication was enabled. A revision could not be shown yet, so the answer has none.
func (f *forwarder) auth(ctx context.Context, method string, down grpc.ServerStream) error {
	var in, out frame
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	defer in.free()
	defer out.free()
	if err := f.invoke(inTurn(ctx, down), method, &in, &out, down); err != nil {
		return err
	}
	var answer pb.AuthEnableResponse // every answer begins with the header
	if err := f.codec.Unmarshal(out.data, &answer); err != nil {
		return err
	}
	if answer.Header != nil {
		answer.Header.Revision = 0
	}
	return down.SendMsg(&answer)
}

// invoke has etcd execute a call.
func (f *forwarder) invoke(ctx context.Context, method string, in, out *frame, down grpc.ServerStream) error {
	var header, trailer metadata.MD
	err := engine.Invoke(ctx, f.conn, method, in, out, grpc.ForceCodecV2(f.codec), grpc.Header(&header), grpc.Trailer(&trailer))
	down.SetTrailer(trailer)
	if err != nil {
		return err
	}
	return down.SetHeader(endToEnd(header))
}

// answer passes on etcd's answer as soon as it may be shown.
func (f *forwarder) answer(ctx context.Context, method string, out *frame, down grpc.ServerStream) error {
	if err := f.reveal(ctx, method, out); err != nil {
		return err
	}
	return down.SendMsg(out)
}

// endToEnd returns the metadata without the headers that the server's transport adds itself.
func endToEnd(md metadata.MD) metadata.MD {
	md.Delete("content-type")
	return md
}

// many passes on one request and all its answers.
func (f *forwarder) many(ctx context.Context, method string, down grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := f.conn.NewStream(ctx, stream, method, grpc.ForceCodecV2(f.codec))
	if err != nil {
		return err
	}
	if err := f.request(up, down); err != nil {
		return err
	}
	if err := up.CloseSend(); err != nil {
		return err
	}
	return f.answers(ctx, method, up, down)
}

// request passes on one message of the client.
func (f *forwarder) request(up grpc.ClientStream, down grpc.ServerStream) error {
	var in frame
	if err := down.RecvMsg(&in); err != nil {
		return err
	}
	defer in.free()
	err := up.SendMsg(&in)
	if errors.Is(err, io.EOF) {
		return nil // the stream ended: its status comes with the answers
	}
	return err
}

// requests passes on the client's messages until it sends no more.
func (f *forwarder) requests(up grpc.ClientStream, down grpc.ServerStream) error {
	for {
		switch err := f.request(up, down); {
		case errors.Is(err, io.EOF):
			return up.CloseSend()
		case err != nil:
			return err
		}
	}
}

// both passes on messages in both directions.
func (f *forwarder) both(ctx context.Context, method string, down grpc.ServerStream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	up, err := f.conn.NewStream(ctx, stream, method, grpc.ForceCodecV2(f.codec))
	if err != nil {
		return err
	}
	go func() {
		if recovery.Do(method, func() error { return f.requests(up, down) }) != nil {
			cancel()
		}
	}()
	return f.answers(ctx, method, up, down)
}

// answers passes on what etcd says, until the status.
func (f *forwarder) answers(ctx context.Context, method string, up grpc.ClientStream, down grpc.ServerStream) error {
	for first := true; ; first = false {
		var out frame
		err := up.RecvMsg(&out)
		if first {
			if header, herr := up.Header(); herr == nil {
				if serr := down.SetHeader(endToEnd(header)); serr != nil {
					return serr
				}
			}
		}
		if err != nil {
			down.SetTrailer(up.Trailer())
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		err = f.answer(ctx, method, &out, down)
		out.free()
		if err != nil {
			return err
		}
	}
}
