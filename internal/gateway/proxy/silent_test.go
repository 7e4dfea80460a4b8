package proxy

import (
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// TestSilentMember: calls to a member that is gone without a reset end, though they have no deadline.
func TestSilentMember(t *testing.T) {
	if testing.Short() {
		t.Skip("gRPC probes a silent connection after 10 s")
	}
	etcd := startEtcd(t)
	l := startLine(t, etcd)
	address := startGateway(t, Options{Endpoints: []string{etcd, l.listener.Addr().String()}, KeepAlive: DefaultKeepAlive})
	kv := pb.NewKVClient(connect(t, address))
	get := func() (*pb.RangeResponse, error) { return kv.Range(t.Context(), &pb.RangeRequest{Key: []byte("a")}) }
	for range 4 {
		must(get())(t)
	}
	l.silence()
	var calls sync.WaitGroup
	for range 4 { // two of them to each member
		calls.Go(func() { _, _ = get() })
	}
	calls.Wait()
	for range 4 {
		must(get())(t)
	}
}
