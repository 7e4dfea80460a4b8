package memory

import (
	"bytes"

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

// RangeStream implements etcd's API. The result is read page by page at one revision, so that a client that does not read
// keeps one page from the memory of the gateway. The last piece has the header and the count.
func (s *kvServer) RangeStream(q *pb.RangeRequest, stream pb.KV_RangeStreamServer) error {
	if !txn.IsDefaultOrdering(q.SortTarget, q.SortOrder) || txn.HasRevisionFilters(q) {
		return errStreamOptions
	}
	next, left := proto.Clone(q).(*pb.RangeRequest), q.Limit
	var first *pb.RangeResponse
	for {
		n, err := s.g.fitting(next, fragmentBytes)
		if err != nil {
			return err
		}
		if next.Limit = n; q.Limit > 0 {
			next.Limit = min(n, left)
		}
		page, err := s.Range(stream.Context(), next)
		if err != nil {
			return err
		}
		if first == nil {
			first = &pb.RangeResponse{Header: page.Header, Count: page.Count}
			if next.Revision == 0 {
				next.Revision = page.Header.Revision
			}
		}
		left -= int64(len(page.Kvs))
		last := !page.More || q.Limit > 0 && left <= 0
		if !last {
			next.Key = append(bytes.Clone(page.Kvs[len(page.Kvs)-1].Key), 0)
		}
		if err := sendPage(stream, page, last, first); err != nil || last {
			return err
		}
	}
}

// sendPage sends a page in pieces, the last one of all with the header and the count.
func sendPage(stream pb.KV_RangeStreamServer, page *pb.RangeResponse, last bool, first *pb.RangeResponse) error {
	for kvs := page.Kvs; ; {
		n := fitting(kvs, fragmentBytes)
		piece := &pb.RangeResponse{Kvs: kvs[:n]}
		end := n == len(kvs)
		if last && end {
			piece.Header, piece.Count, piece.More = first.Header, first.Count, page.More
		}
		if err := stream.Send(&pb.RangeStreamResponse{RangeResponse: piece}); err != nil || end {
			return err
		}
		kvs = kvs[n:]
	}
}

// fitting returns how many objects of a range, at least one, take a number of bytes at most. It looks at this gateway's
// copy, which may be behind.
func (g *Gateway) fitting(q *pb.RangeRequest, most int64) (int64, error) {
	space, done, err := g.present()
	if err != nil {
		return 0, err
	}
	defer done()
	return space.Fitting(q, most), nil
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
