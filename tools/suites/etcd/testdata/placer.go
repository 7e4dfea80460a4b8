//go:build cluster_proxy

package integration

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

const (
	// maxPlaced is how many keys of a client wait for their place.
	maxPlaced = 16
	// maxLooks bounds how often a key is looked for in the chain. A key with a lease gets no place.
	maxLooks  = 20
	lookPause = 10 * time.Millisecond
)

// placer has a client wait after the first read of a key until the key has its place, and repeats the read then: so the
// chain answers it.
type placer struct {
	address string
	pages   http.Client

	mu   sync.Mutex
	read map[string]bool
}

func newPlacer(address string) *placer {
	// The tests look for goroutines that are left.
	pages := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return &placer{address: address, pages: pages, read: make(map[string]bool)}
}

func (p *placer) option() grpc.DialOption { return grpc.WithChainUnaryInterceptor(p.intercept) }

func (p *placer) intercept(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	o ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, reply, conn, o...)
	r, ok := request.(*pb.RangeRequest)
	if !ok || err != nil || len(r.RangeEnd) > 0 || r.Serializable || r.Revision > 0 || !p.first(string(r.Key)) {
		return err
	}
	for n := 0; n < maxLooks && !p.has(ctx, string(r.Key)); n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookPause):
		}
	}
	var again pb.RangeResponse
	if invoke(ctx, method, request, &again, conn, o...) == nil {
		answer := reply.(*pb.RangeResponse)
		answer.Header, answer.Kvs, answer.Count, answer.More = again.Header, again.Kvs, again.Count, again.More
	}
	return nil
}

// first reports whether a key is read for the first time, and not too many were read before.
func (p *placer) first(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read[key] || len(p.read) == maxPlaced {
		return false
	}
	p.read[key] = true
	return true
}

// has reports whether a key has its place.
func (p *placer) has(ctx context.Context, key string) bool {
	at := "http://" + p.address + "/proxy/explain?key=" + url.QueryEscape(key)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return false
	}
	answer, err := p.pages.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var explanation struct{ Placed bool }
	return json.NewDecoder(answer.Body).Decode(&explanation) == nil && explanation.Placed
}
