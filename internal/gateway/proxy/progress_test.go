package proxy

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/netcraq/netcraq/internal/gateway/progress"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
)

// TestProgress watches through a gateway without a cache, and through one with a placed key, which pushes revisions.
func TestProgress(t *testing.T) {
	etcd := startEtcd(t)
	plain := startGateway(t, Options{Endpoints: []string{etcd}})
	etcdtest.Progress(t, plain, plain)
	cached := startCached(t, etcd, startChain(t, 2, 4), Cache{})
	must(cached.client.Put(t.Context(), "k", "1"))(t)
	cached.hot(t, "k")
	etcdtest.Progress(t, cached.address, cached.address)
}

// TestProgressFrames: encoded messages are recognized as decoded ones are.
func TestProgressFrames(t *testing.T) {
	w := watchFrames{newCodec()}
	asked := w.New()
	w.Request(asked)
	if got := w.KindOf(asked); got != progress.Progress {
		t.Errorf("a request for progress is of kind %d", got)
	}
	encoded := func(m any) *frame {
		data, err := w.codec.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return &frame{data}
	}
	create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}}
	if got := w.KindOf(encoded(create)); got != progress.Creation {
		t.Errorf("a request for a watch is of kind %d", got)
	}
	header := &pb.ResponseHeader{ClusterId: 1 << 63, MemberId: 1 << 63, Revision: 1 << 62, RaftTerm: 1 << 62}
	for want, answer := range map[progress.Kind]*pb.WatchResponse{
		progress.Progress: {Header: header, WatchId: -1},
		progress.Creation: {Header: header, WatchId: 1 << 62, Created: true},
		progress.Other:    {Header: header, WatchId: 3},
	} {
		if got, revision := w.Answer(encoded(answer)); got != want || revision != header.Revision {
			t.Errorf("%v is of kind %d, revision %d", answer, got, revision)
		}
	}
}
