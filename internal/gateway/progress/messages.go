package progress

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Decoded are messages of etcd's own types.
type Decoded struct{}

// New implements [Messages].
func (Decoded) New() any { return new(pb.WatchRequest) }

// Move implements [Messages].
func (Decoded) Move(to, from any) {
	to.(*pb.WatchRequest).RequestUnion = from.(*pb.WatchRequest).RequestUnion
}

// Request implements [Messages].
func (Decoded) Request(to any) { to.(*pb.WatchRequest).RequestUnion = Request().RequestUnion }

// KindOf implements [Messages].
func (Decoded) KindOf(request any) Kind { return KindOf(request.(*pb.WatchRequest)) }

// Answer implements [Messages].
func (Decoded) Answer(answer any) (Kind, int64) { return Answer(answer.(*pb.WatchResponse)) }

// Request returns a request for progress.
func Request() *pb.WatchRequest {
	return &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: new(pb.WatchProgressRequest)}}
}

// KindOf returns what a request asks for.
func KindOf(r *pb.WatchRequest) Kind {
	switch {
	case r.GetProgressRequest() != nil:
		return Progress
	case r.GetCreateRequest() != nil:
		return Creation
	}
	return Other
}

// Answer returns what an answer tells. Progress of all watches names none.
func Answer(a *pb.WatchResponse) (Kind, int64) {
	kind := Other
	switch {
	case a.Created:
		kind = Creation
	case a.WatchId == clientv3.InvalidWatchID && !a.Canceled && len(a.Events) == 0:
		kind = Progress
	}
	return kind, a.GetHeader().GetRevision()
}
