package member

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/progress"
	"github.com/netcraq/netcraq/internal/member/core"
)

func (f *Front) stream(service any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := f.wait(s.Context()); err != nil {
		return err
	}
	shown := &shownStream{ServerStream: s, front: f}
	switch info.FullMethod {
	case pb.KV_RangeStream_FullMethodName:
		return f.rangeStream(service, shown, handle)
	case pb.Watch_Watch_FullMethodName:
		return handle(service, progress.New(shown, progress.Decoded{}, f.newest))
	case pb.Maintenance_Snapshot_FullMethodName:
		shown.opaque = true
	}
	return handle(service, shown)
}

// newest is the revision of this member's store. Progress of a stream of watches follows it.
func (f *Front) newest() (revision int64, moved <-chan struct{}) {
	moved = f.server.ApplyWait(f.server.AppliedIndex() + 1)
	return f.server.KV().Rev(), moved
}

// shownStream is a stream whose messages wait until they may be shown.
type shownStream struct {
	grpc.ServerStream
	front  *Front
	opaque bool // the first message has data, and no revision: that of the store is as new or newer
}

func (s *shownStream) SendMsg(m any) error {
	var p core.Point
	if s.opaque {
		p.Revision, s.opaque = s.front.server.KV().Rev(), false
	}
	p.Revision = max(p.Revision, revisionIn(m))
	if err := s.front.reveal(s.Context(), p); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

// revisionIn returns the newest revision in a message of a stream.
func revisionIn(m any) (newest int64) {
	if a, is := m.(answered); is {
		newest = a.GetHeader().GetRevision()
	}
	switch m := m.(type) {
	case *pb.WatchResponse:
		for _, event := range m.Events {
			newest = max(newest, event.GetKv().GetModRevision())
		}
		newest = max(newest, m.CompactRevision)
	case *pb.RangeStreamResponse:
		newest = m.GetRangeResponse().GetHeader().GetRevision()
	case *v3electionpb.LeaderResponse:
		newest = max(newest, m.GetKv().GetModRevision())
	}
	return newest
}

// rangeStream answers a linearizable read in parts, as of the read point. If etcd fails before it has sent a part, it is asked
// again in its own way.
func (f *Front) rangeStream(service any, s *shownStream, handle grpc.StreamHandler) error {
	r := new(pb.RangeRequest)
	if err := s.RecvMsg(r); err != nil {
		return err
	}
	if !r.Serializable {
		if p, ok := f.readPoint(s.Context(), r.Revision); ok {
			exact := &exactStream{ServerStream: s.ServerStream, request: at(r, p.Revision), revision: p.Revision}
			if err := handle(service, exact); err == nil || exact.sent {
				if err == nil {
					f.fast.Add(1)
				}
				return err
			}
			f.count(Failed)
		}
	}
	s.opaque = true
	return handle(service, &given{s, r})
}

// given is a stream whose only request has been received already.
type given struct {
	grpc.ServerStream
	request *pb.RangeRequest
}

func (g *given) RecvMsg(m any) error {
	proto.Merge(m.(*pb.RangeRequest), g.request)
	return nil
}

// exactStream is the answer to a read as of a revision.
type exactStream struct {
	grpc.ServerStream
	request  *pb.RangeRequest
	revision int64
	sent     bool
}

func (e *exactStream) RecvMsg(m any) error {
	proto.Merge(m.(*pb.RangeRequest), e.request)
	return nil
}

func (e *exactStream) SendMsg(m any) error {
	if h := m.(*pb.RangeStreamResponse).GetRangeResponse().GetHeader(); h != nil {
		h.Revision = e.revision
	}
	e.sent = true
	return e.ServerStream.SendMsg(m)
}
