package proxy

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

var seed = flag.Uint64("seed", 0, "seed of random requests; 0: another each time")

// random returns a generator whose seed the test prints.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 1))
}

// beside is a gateway and an etcd without gateways, which execute the same requests.
type beside struct {
	t              *testing.T
	gateway, plain pb.KVClient
	revisions      map[int64]int64 // of the gateway's etcd: the same writes' revisions in the other
	last           int64           // newest revision of the other
}

// besideEtcd compares a gateway with an etcd that has no keys yet.
func besideEtcd(t *testing.T, gateway, plain string) *beside {
	return &beside{
		t: t, gateway: pb.NewKVClient(open(t, gateway).ActiveConnection()), plain: pb.NewKVClient(open(t, plain).ActiveConnection()),
		revisions: make(map[int64]int64), last: 1,
	}
}

// wrote notes the revisions of one write.
func (b *beside) wrote(gateway, plain *pb.ResponseHeader) {
	if plain.GetRevision() > b.last {
		b.last = plain.GetRevision()
		b.revisions[gateway.GetRevision()] = b.last
	}
}

// put writes one key to both.
func (b *beside) put(key, value string) {
	b.t.Helper()
	r := &pb.PutRequest{Key: []byte(key), Value: []byte(value)}
	b.wrote(must(b.gateway.Put(b.t.Context(), r))(b.t).Header, must(b.plain.Put(b.t.Context(), r))(b.t).Header)
}

// ofGateway is the revision of the gateway's etcd at which the write of a revision of the other happened.
func (b *beside) ofGateway(plain int64) int64 {
	for g, p := range b.revisions {
		if p == plain {
			return g
		}
	}
	return plain
}

// translate gives keys of the gateway's etcd the revisions of the other.
func (b *beside) translate(kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		kv.CreateRevision, kv.ModRevision = b.revisions[kv.CreateRevision], b.revisions[kv.ModRevision]
	}
}

// same reports a difference between two answers, of which the gateway's has been translated.
func (b *beside) same(request, got, want proto.Message, gotErr, wantErr error) {
	b.t.Helper()
	g, w := status.Convert(gotErr), status.Convert(wantErr)
	switch {
	case g.Code() != w.Code() || g.Message() != w.Message():
		b.t.Errorf("%v\ngateway: %v\netcd:    %v", short(request), gotErr, wantErr)
	case wantErr == nil && !proto.Equal(got, want):
		b.t.Errorf("%v\ngateway: %v\netcd:    %v", short(request), short(got), short(want))
	}
}

func short(m proto.Message) string {
	text := fmt.Sprint(m)
	return text[:min(len(text), 1500)]
}

// pageOver draws a range over the gateways' own keys and others.
func (b *beside) pageOver(rng *rand.Rand) (gateway, plain *pb.RangeRequest) {
	pick := func(list ...string) []byte { return []byte(list[rng.IntN(len(list))]) }
	plain = &pb.RangeRequest{
		Key: pick("\x00", "/", "/netcraq/gateway", "/netcraq/a", "a/0"), RangeEnd: pick("\x00", "b", "/netcraq/h", "\xff\xff\xff"),
		Limit:     []int64{0, 1, 5, 10, 20, 30, 1000, 1<<63 - 1}[rng.IntN(8)],
		SortOrder: pb.RangeRequest_SortOrder(rng.IntN(3)), SortTarget: pb.RangeRequest_SortTarget(rng.IntN(5)),
		KeysOnly: rng.IntN(4) == 0, CountOnly: rng.IntN(8) == 0, Serializable: rng.IntN(4) == 0,
	}
	if rng.IntN(40) == 0 {
		plain.SortTarget = 9
	}
	gateway = proto.CloneOf(plain)
	for i := range []*int64{&plain.MinModRevision, &plain.MaxModRevision, &plain.MinCreateRevision, &plain.MaxCreateRevision} {
		if rng.IntN(6) > 0 {
			continue
		}
		rev := b.last - rng.Int64N(100)
		p := []*int64{&plain.MinModRevision, &plain.MaxModRevision, &plain.MinCreateRevision, &plain.MaxCreateRevision}[i]
		g := []*int64{&gateway.MinModRevision, &gateway.MaxModRevision, &gateway.MinCreateRevision, &gateway.MaxCreateRevision}[i]
		*p, *g = rev, b.ofGateway(rev)
	}
	if rng.IntN(5) == 0 {
		plain.Revision = b.last - rng.Int64N(50)
		gateway.Revision = b.ofGateway(plain.Revision)
	}
	return gateway, plain
}

// TestRangesOverEverythingAreEtcds compares random ranges over the gateways' own keys and others with those of an etcd
// that has no gateways.
func TestRangesOverEverythingAreEtcds(t *testing.T) {
	rng := random(t)
	a := startCached(t, startEtcd(t), startChain(t, 3, 1), Cache{})
	b := besideEtcd(t, a.address, startEtcd(t))
	a.hot(t, "/registry/x")
	for i := range 120 {
		key := fmt.Sprintf("%s%02d", []string{"a/", "/netcraq/", "/netcraq/gatewax", "/netcraq/gatewaz", "/registry/", "\xff\xff"}[i%6], i)
		for range i%3 + 1 {
			b.put(key, fmt.Sprint(rng.IntN(9)))
		}
	}
	for range 1500 {
		gateway, plain := b.pageOver(rng)
		got, gotErr := b.gateway.Range(t.Context(), gateway)
		want, wantErr := b.plain.Range(context.WithoutCancel(t.Context()), plain)
		if gotErr == nil && wantErr == nil {
			b.translate(got.Kvs)
			got.Header, want.Header = nil, nil
		}
		if b.same(plain, got, want, gotErr, wantErr); t.Failed() {
			return
		}
	}
}
