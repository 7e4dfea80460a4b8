package proxy

import (
	"context"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
)

// Methods that the cache takes part in.
const (
	methodRange       = "/etcdserverpb.KV/Range"
	methodPut         = "/etcdserverpb.KV/Put"
	methodDeleteRange = "/etcdserverpb.KV/DeleteRange"
	methodTxn         = "/etcdserverpb.KV/Txn"
	methodRangeStream = "/etcdserverpb.KV/RangeStream"
)

// cached executes a call with the cache. handled is false if the call is to be passed on as it is.
func (f *forwarder) cached(ctx context.Context, method string, in *frame, down grpc.ServerStream) (handled bool, err error) {
	switch method {
	case methodRange:
		var r pb.RangeRequest
		if f.codec.Unmarshal(in.data, &r) != nil {
			return false, nil // etcd says what is wrong
		}
		if c, ok := down.(*grpcserver.Call); (!ok || !c.Passed()) && !identified(ctx) { // else the chain could not answer
			if message := f.cache.Range(&r); message != nil {
				f.shown.Raise(headerRevision(message))
				return true, down.SendMsg(&frame{mem.BufferSlice{mem.SliceBuffer(message)}})
			}
		}
		return f.rangeOnce(ctx, &r, in, down)
	case methodLeaseRevoke:
		var r pb.LeaseRevokeRequest
		if err := f.codec.Unmarshal(in.data, &r); err != nil {
			return true, undecodable(err)
		}
		if engine.OwnLease(r.ID) { // a session's, which clients do not see
			return true, rpctypes.ErrGRPCLeaseNotFound
		}
	case methodPut:
		r := new(pb.PutRequest)
		return f.write(ctx, in, r, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: r}}, down)
	case methodDeleteRange:
		r := new(pb.DeleteRangeRequest)
		return f.write(ctx, in, r, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: r}}, down)
	case methodTxn:
		r := new(pb.TxnRequest)
		return f.write(ctx, in, r, &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: r}}, down)
	}
	return false, nil
}

// identified reports whether a client says who it is. Then etcd decides what it may read.
func identified(ctx context.Context) bool {
	md, _ := metadata.FromOutgoingContext(ctx)
	return hasToken(md)
}

func hasToken(md metadata.MD) bool {
	return len(md[rpctypes.TokenFieldNameGRPC]) > 0 || len(md[rpctypes.TokenFieldNameSwagger]) > 0
}

// rangeOnce has etcd answer a read that may be worth a place.
func (f *forwarder) rangeOnce(ctx context.Context, r *pb.RangeRequest, in *frame, down grpc.ServerStream) (bool, error) {
	if len(r.RangeEnd) > 0 {
		return false, nil
	}
	var out frame
	defer out.free()
	if err := f.invoke(ctx, methodRange, in, &out, down); err != nil {
		return true, err
	}
	var answer pb.RangeResponse
	if err := f.codec.Unmarshal(out.data, &answer); err == nil {
		f.cache.Read(r, &answer)
	}
	return true, f.answer(ctx, methodRange, &out, down)
}

// undecodable is the status of a request that is no message, in the words of grpc-go. etcd must not see it: members of
// earlier releases decode some messages that this gateway refuses, and would execute a write without the guard.
func undecodable(err error) error {
	return status.Errorf(codes.Internal, "grpc: error unmarshalling request: %v", err)
}

// write executes a write with the cache.
func (f *forwarder) write(ctx context.Context, in *frame, r any, op *pb.RequestOp, down grpc.ServerStream) (bool, error) {
	if err := f.codec.Unmarshal(in.data, r); err != nil {
		return true, undecodable(err)
	}
	original := op
	split, join := splitOp(op)
	if split != nil {
		op = split
	}
	write := ctx
	tellRanges(down, original)
	if call, ok := down.(*grpcserver.Call); ok && returnsValues(original) { // others wait until the write's bits are cleared
		write = engine.WithReceive(ctx, call.ReceiveNow)
	}
	answer, header, ok, err := f.cache.Write(write, op, original)
	if !ok || err != nil {
		return ok, err
	}
	if join != nil {
		answer = join(answer)
	}
	f.shown.Raise(header.GetRevision())
	return true, sendWhole(answer, header, down)
}

// returnsValues reports whether the answer to an operation may have values of keys.
func returnsValues(op *pb.RequestOp) bool {
	t := op.GetRequestTxn()
	return op.GetRequestRange() != nil || op.GetRequestPut().GetPrevKv() || op.GetRequestDeleteRange().GetPrevKv() ||
		slices.ContainsFunc(t.GetSuccess(), returnsValues) || slices.ContainsFunc(t.GetFailure(), returnsValues)
}

// tellRanges tells a call how many ranges its operation reads.
func tellRanges(down grpc.ServerStream, op *pb.RequestOp) {
	if call, ok := down.(*grpcserver.Call); ok {
		call.Reads(rangesRead(op))
	}
}

// rangesRead returns how many ranges of keys the answer to an operation may have.
func rangesRead(op *pb.RequestOp) int {
	if t := op.GetRequestTxn(); t != nil {
		return max(rangesOf(t.GetSuccess()), rangesOf(t.GetFailure()))
	}
	r, d := op.GetRequestRange(), op.GetRequestDeleteRange()
	if len(r.GetRangeEnd()) > 0 && !r.GetCountOnly() || len(d.GetRangeEnd()) > 0 && d.GetPrevKv() {
		return 1
	}
	return 0
}

func rangesOf(ops []*pb.RequestOp) (n int) {
	for _, op := range ops {
		n += rangesRead(op)
	}
	return n
}

// reveal waits until the chain has the revision that an answer shows.
func (f *forwarder) reveal(ctx context.Context, method string, out *frame) error {
	if f.cache == nil && f.ended == nil && method == methodRangeStream {
		return nil // looking for the revision would copy the answer
	}
	m := core.Answers
	if method == methodWatch {
		m = core.Events
	}
	return f.show(ctx, m, revision(out.data, method == methodRangeStream))
}

// Fields of etcd's messages.
const (
	fieldHeader   = 1 // of every answer; of a RangeStream's the RangeResponse
	fieldRevision = 3 // of a header
)

// enoughForHeader is how long the beginning of an answer is that has the whole header.
const enoughForHeader = 64

// revision is header.revision of an encoded answer; 0: it has none.
func revision(data mem.BufferSlice, nested bool) int64 {
	var b []byte
	switch {
	case len(data) == 0:
		return 0
	case len(data) == 1 || !nested && data[0].Len() >= enoughForHeader:
		b = data[0].ReadOnlyData()
	default:
		b = data.Materialize()
	}
	if nested {
		b = field(b, fieldHeader)
	}
	return headerRevision(b)
}

// headerRevision is header.revision of an encoded answer that is in one piece.
func headerRevision(answer []byte) int64 {
	header := field(answer, fieldHeader)
	for len(header) > 0 {
		number, kind, n := protowire.ConsumeTag(header)
		if n < 0 {
			return 0
		}
		header = header[n:]
		if number == fieldRevision && kind == protowire.VarintType {
			rev, _ := protowire.ConsumeVarint(header)
			return int64(rev)
		}
		if n = protowire.ConsumeFieldValue(number, kind, header); n < 0 {
			return 0
		}
		header = header[n:]
	}
	return 0
}

// field is a message within a message, or nothing.
func field(b []byte, wanted protowire.Number) []byte {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		b = b[n:]
		if number == wanted && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return nil
		}
		b = b[n:]
	}
	return nil
}
