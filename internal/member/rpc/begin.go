package rpc

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/member/core"
)

// A linearizable read of one key needs no goroutine while it waits for its read point. The goroutine that has the
// points of several reads answers them one after the other, within the same interceptors.

// pointKey is that of a read point in a context.
type pointKey struct{}

// PointIn returns the read point of a call that got it before its handler began.
func PointIn(ctx context.Context) (p core.Point, ok bool) {
	p, ok = ctx.Value(pointKey{}).(core.Point)
	return p, ok
}

// begin takes a linearizable read of one key that etcd's handler will not refuse.
func (r *Server) begin(c *grpcserver.Call, method string, message []byte) bool {
	if method != pb.KV_Range_FullMethodName || r.ahead == nil {
		return false
	}
	request := new(pb.RangeRequest)
	if proto.Unmarshal(message, request) != nil || !simple(request) {
		return false
	}
	bytes := len(message)
	r.ahead(func(p core.Point, ok bool) {
		if !ok {
			message, _ := proto.Marshal(request) // it was decoded from one
			c.Pass(message)
			return
		}
		receivedBytes.Add(float64(bytes))
		r.answer(c, request, p)
	})
	return true
}

// simple reports whether a request reads the newest version of one key, and nothing that a handler checks.
func simple(r *pb.RangeRequest) bool {
	return len(r.Key) > 0 && len(r.RangeEnd) == 0 && r.Revision == 0 && !r.Serializable &&
		r.SortOrder == pb.RangeRequest_NONE && r.SortTarget == pb.RangeRequest_KEY
}

var rangeInfo = grpc.UnaryServerInfo{FullMethod: pb.KV_Range_FullMethodName}

// buffers are for encoded answers.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer limits the buffers that are used again.
const maxBuffer = 64 << 10

// answer answers a read whose point this member has applied.
func (r *Server) answer(c *grpcserver.Call, request *pb.RangeRequest, p core.Point) {
	defer c.Flush()
	ctx := context.WithValue(c.Caller(), pointKey{}, p)
	answer, err := r.unary(ctx, request, &rangeInfo, func(ctx context.Context, request any) (any, error) {
		return r.kv.Range(ctx, request.(*pb.RangeRequest))
	})
	if err != nil {
		c.Fail(err)
		return
	}
	buffer := buffers.Get().(*[]byte)
	message, err := proto.MarshalOptions{}.MarshalAppend((*buffer)[:0], answer.(*pb.RangeResponse))
	sentBytes.Add(float64(len(message)))
	if err != nil {
		c.Fail(err)
	} else {
		c.Answer(message)
	}
	if cap(message) <= maxBuffer {
		*buffer = message
		buffers.Put(buffer)
	}
}
