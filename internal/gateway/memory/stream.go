package memory

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// errStreamOptions is etcd's answer to options that need the whole result at once.
var errStreamOptions = status.Error(codes.Unimplemented,
	"netcraq: RangeStream does not support custom sort orders or revision filters")

// RangeStream implements etcd's API. The result is read as a whole and sent in pieces. The last piece has the header and
// the count.
func (s *kvServer) RangeStream(q *pb.RangeRequest, stream pb.KV_RangeStreamServer) error {
	if !txn.IsDefaultOrdering(q.SortTarget, q.SortOrder) || txn.HasRevisionFilters(q) {
		return errStreamOptions
	}
	rest, err := s.Range(stream.Context(), q)
	if err != nil {
		return err
	}
	for {
		n := fitting(rest.Kvs, fragmentBytes)
		if n == len(rest.Kvs) {
			return stream.Send(&pb.RangeStreamResponse{RangeResponse: rest})
		}
		piece := &pb.RangeResponse{Kvs: rest.Kvs[:n]}
		if err := stream.Send(&pb.RangeStreamResponse{RangeResponse: piece}); err != nil {
			return err
		}
		rest.Kvs = rest.Kvs[n:]
	}
}

// fitting returns the number of objects, at least one, that fit into a message of some length.
func fitting(kvs []*mvccpb.KeyValue, bytes int) int {
	for i, kv := range kvs {
		if bytes -= proto.Size(kv); bytes < 0 && i > 0 {
			return i
		}
	}
	return len(kvs)
}
