package memory

import (
	"bytes"
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
)

// errStreamOptions is etcd's answer to options that need the whole result at once.
var errStreamOptions = status.Error(codes.Unimplemented,
	"netcraq: RangeStream does not support custom sort orders or revision filters")

// serveRangeStream answers a range page by page at one revision, so that a client that does not read keeps one page from
// the memory of the gateway. A client gets the objects as the store has them. The last piece has the header and the count.
func (s *kvServer) serveRangeStream(down grpc.ServerStream) error {
	q := new(pb.RangeRequest)
	if err := down.RecvMsg(q); err != nil {
		return err
	}
	send := func(piece *keyspace.Found) error { return down.SendMsg(keyspace.Streamed{Found: piece}) }
	if _, encodes := down.(reserver); !encodes {
		send = func(piece *keyspace.Found) error {
			a, err := piece.Message()
			if err != nil {
				return err
			}
			return down.SendMsg(&pb.RangeStreamResponse{RangeResponse: a})
		}
	}
	return s.sendPages(down.Context(), q, send)
}

func (s *kvServer) sendPages(ctx context.Context, q *pb.RangeRequest, send func(*keyspace.Found) error) error {
	if !txn.IsDefaultOrdering(q.SortTarget, q.SortOrder) || txn.HasRevisionFilters(q) {
		return errStreamOptions
	}
	if err := checkRange(q); err != nil {
		return err
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
		page, err := s.look(ctx, next, 0)
		if page, err = complete(s.g, page, err); err != nil {
			return err
		}
		a := page.Answer()
		if first == nil {
			first = &pb.RangeResponse{Header: a.Header, Count: a.Count}
			if next.Revision == 0 {
				next.Revision = a.Header.Revision
			}
		}
		left -= int64(page.Len())
		last := !a.More || q.Limit > 0 && left <= 0
		if !last {
			next.Key = append(bytes.Clone(page.LastKey()), 0)
		}
		if err := sendPage(page, last, first, send); err != nil || last {
			return err
		}
	}
}

// sendPage sends a page in pieces, the last one of all with the header and the count.
func sendPage(page *keyspace.Found, last bool, first *pb.RangeResponse, send func(*keyspace.Found) error) error {
	for {
		piece := page.Cut(fragmentBytes)
		end := page.Len() == 0
		if a := piece.Answer(); last && end {
			a.Header, a.Count, a.More = first.Header, first.Count, page.Answer().More
		}
		if err := send(piece); err != nil || end {
			return err
		}
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
