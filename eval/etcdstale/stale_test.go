package etcdstale

import (
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestIsStale(t *testing.T) {
	of := func(revision int64) *clientv3.GetResponse {
		return &clientv3.GetResponse{Kvs: []*mvccpb.KeyValue{{ModRevision: revision}}}
	}
	for revision, stale := range map[int64]bool{4: true, 5: false, 6: false} {
		if got := isStale(of(revision), 5); got != stale {
			t.Errorf("a read that shows revision %d after 5 was acknowledged is stale: %v", revision, got)
		}
	}
	if !isStale(&clientv3.GetResponse{}, 5) {
		t.Error("a read that shows no key is not stale")
	}
}
