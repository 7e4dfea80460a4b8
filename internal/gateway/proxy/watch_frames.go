package proxy

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/mem"

	"github.com/netcraq/netcraq/internal/gateway/progress"
)

// watchFrames are the messages of a stream of watches, for its progress.
type watchFrames struct{ codec codec }

// New implements [progress.Messages].
func (watchFrames) New() any { return new(frame) }

// Move implements [progress.Messages].
func (watchFrames) Move(to, from any) { to.(*frame).data = from.(*frame).data }

// Request implements [progress.Messages].
func (watchFrames) Request(to any) { to.(*frame).data = progressRequest }

// KindOf implements [progress.Messages].
func (w watchFrames) KindOf(request any) progress.Kind {
	var r pb.WatchRequest
	if w.codec.Unmarshal(request.(*frame).data, &r) != nil {
		return progress.Other // etcd says what is wrong
	}
	return progress.KindOf(&r)
}

// Answer implements [progress.Messages].
func (w watchFrames) Answer(answer any) (progress.Kind, int64) {
	var a pb.WatchResponse
	out, ok := answer.(*frame)
	if !ok || out.Size() > longestWithoutEvents || w.codec.Unmarshal(out.data, &a) != nil {
		return progress.Other, 0
	}
	return progress.Answer(&a)
}

// progressRequest is an encoded [progress.Request].
var progressRequest = mem.BufferSlice{mem.SliceBuffer{0x1a, 0}}

// longestWithoutEvents is more than the length of an answer without events. It has a header, numbers, and perhaps the
// reason why a watch was canceled.
const longestWithoutEvents = 1 << 10
