package proxy

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/verify/etcdtest"
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

// drawnTxns draws transactions for a gateway, and the same for the other etcd.
type drawnTxns struct {
	*beside
	rng  *rand.Rand
	now  map[string]*mvccpb.KeyValue // of the other etcd
	keys int
	most int // --max-txn-ops
}

func (d *drawnTxns) key() string { return fmt.Sprintf("k/%03d", d.rng.IntN(d.keys)) }

// size draws a number of operations.
func (d *drawnTxns) size() int {
	if d.rng.IntN(3) == 0 {
		return d.rng.IntN(d.most + 2)
	}
	return []int{0, 1, 1, 2, 3, 8, d.most/2 - 1, d.most / 2, d.most - 3, d.most - 2, d.most - 1, d.most, d.most + 1}[d.rng.IntN(13)]
}

// compare draws a condition that holds, or does not.
func (d *drawnTxns) compare(holds bool) (gateway, plain *pb.Compare) {
	key := d.key()
	kv, ok := d.now[key]
	if !ok {
		kv = new(mvccpb.KeyValue)
	}
	c := &pb.Compare{Key: []byte(key), Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{Version: kv.Version}}
	switch d.rng.IntN(5) {
	case 0:
		if ok {
			c.Target, c.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: kv.Value}
		}
	case 1:
		c.Target, c.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: kv.ModRevision}
	case 2:
		c.Target, c.TargetUnion, c.Result = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: kv.CreateRevision + 1}, pb.Compare_LESS
	case 3:
		c.RangeEnd, c.Target, c.TargetUnion = []byte("k/9"), pb.Compare_LEASE, &pb.Compare_Lease{}
	}
	if !holds {
		c.Result = map[pb.Compare_CompareResult]pb.Compare_CompareResult{
			pb.Compare_EQUAL: pb.Compare_NOT_EQUAL, pb.Compare_LESS: pb.Compare_GREATER,
		}[c.Result]
	}
	g := proto.CloneOf(c)
	switch u := g.TargetUnion.(type) {
	case *pb.Compare_ModRevision:
		u.ModRevision = d.ofGateway(kv.ModRevision)
	case *pb.Compare_CreateRevision:
		u.CreateRevision = d.ofGateway(kv.CreateRevision) + 1
	}
	return g, c
}

// ops draws n operations, nested up to a depth.
func (d *drawnTxns) ops(n, depth int, puts map[string]bool) (gateway, plain []*pb.RequestOp) {
	for range n {
		var op *pb.RequestOp
		switch i := d.rng.IntN(40); {
		case i == 0 && depth > 0:
			g, p := d.txn(d.rng.IntN(4), d.rng.IntN(4), d.rng.IntN(4), d.rng.IntN(2) == 0, depth-1, puts)
			gateway, plain = append(gateway, txnOp(g)), append(plain, txnOp(p))
			continue
		case i < 4:
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{
				Key: []byte{0}, RangeEnd: []byte{0}, Limit: d.rng.Int64N(4), CountOnly: d.rng.IntN(2) == 0,
			}}}
		case i < 12:
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: []byte(d.key())}}}
		case i == 12 && d.rng.IntN(8) == 0:
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
				Key: []byte(d.key()), RangeEnd: []byte{0}, PrevKv: d.rng.IntN(2) == 0,
			}}}
		default:
			put := &pb.PutRequest{Key: []byte(d.key()), Value: []byte(fmt.Sprint(d.rng.IntN(9))), PrevKv: d.rng.IntN(4) == 0}
			for puts[string(put.Key)] && d.rng.IntN(600) > 0 { // or the transaction is refused
				put.Key = fmt.Appendf(nil, "n/%d", d.rng.Uint32())
			}
			puts[string(put.Key)] = true
			op = &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
		}
		gateway, plain = append(gateway, proto.CloneOf(op)), append(plain, op)
	}
	return gateway, plain
}

func (d *drawnTxns) txn(compares, success, failure int, holds bool, depth int, puts map[string]bool) (gateway, plain *pb.TxnRequest) {
	gateway, plain = new(pb.TxnRequest), new(pb.TxnRequest)
	fails := d.rng.IntN(max(compares, 1))
	for i := range compares {
		g, p := d.compare(holds || i != fails)
		gateway.Compare, plain.Compare = append(gateway.Compare, g), append(plain.Compare, p)
	}
	gateway.Success, plain.Success = d.ops(success, depth, maps.Clone(puts))
	gateway.Failure, plain.Failure = d.ops(failure, depth, maps.Clone(puts))
	return gateway, plain
}

// answered compares the answers to a transaction.
func (d *drawnTxns) answered(q *pb.TxnRequest, got, want *pb.TxnResponse, gotErr, wantErr error) {
	d.t.Helper()
	if gotErr == nil && wantErr == nil {
		d.wrote(got.Header, want.Header)
		d.neutral(got.Responses, true)
		d.neutral(want.Responses, false)
		got.Header, want.Header = nil, nil
	}
	d.same(q, got, want, gotErr, wantErr)
}

// neutral makes answers comparable.
func (d *drawnTxns) neutral(ops []*pb.ResponseOp, gateway bool) {
	for _, op := range ops {
		var kvs []*mvccpb.KeyValue
		switch r := op.Response.(type) {
		case *pb.ResponseOp_ResponseRange:
			kvs, r.ResponseRange.Header = r.ResponseRange.Kvs, nil
		case *pb.ResponseOp_ResponsePut:
			if r.ResponsePut.Header = nil; r.ResponsePut.PrevKv != nil {
				kvs = append(kvs, r.ResponsePut.PrevKv)
			}
		case *pb.ResponseOp_ResponseDeleteRange:
			kvs, r.ResponseDeleteRange.Header = r.ResponseDeleteRange.PrevKvs, nil
		case *pb.ResponseOp_ResponseTxn:
			d.neutral(r.ResponseTxn.Responses, gateway)
		}
		if gateway {
			d.translate(kvs)
		}
	}
}

// look reads what the other etcd has now, and compares it with what the gateway shows.
func (d *drawnTxns) look() {
	d.t.Helper()
	all := &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}}
	got, want := must(d.gateway.Range(d.t.Context(), all))(d.t), must(d.plain.Range(d.t.Context(), all))(d.t)
	d.translate(got.Kvs)
	got.Header, want.Header = nil, nil
	d.same(all, got, want, nil, nil)
	d.now = make(map[string]*mvccpb.KeyValue)
	for _, kv := range want.Kvs {
		d.now[string(kv.Key)] = kv
	}
}

// placedIn counts the keys of the directory.
func placedIn(t *testing.T, etcd string) int64 {
	t.Helper()
	const directory = engine.OwnPrefix + core.DirectoryPrefix
	return must(open(t, etcd).Get(t.Context(), directory, clientv3.WithPrefix(), clientv3.WithCountOnly()))(t).Count
}

// TestTransactionsAreEtcds executes random transactions of placed and other keys through a gateway, and compares its
// answers, and its errors, with those of an etcd without gateways: etcd's limit of operations is the gateway's, also if it
// is not the default.
func TestTransactionsAreEtcds(t *testing.T) {
	for _, most := range []int{128, 300, 70} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			rng := random(t)
			etcd, plain := etcdtest.FreePort(t), etcdtest.FreePort(t)
			for _, address := range []string{etcd, plain} {
				startMember(t, address, etcdtest.FreePort(t), func(c *embed.Config) { c.MaxTxnOps = uint(most) })
			}
			a := startCached(t, etcd, startChain(t, 3, 4), pinned())
			d := &drawnTxns{beside: besideEtcd(t, a.address, plain), rng: rng, keys: 200, most: most}
			placed := int64(0)
			for range 100 {
				d.look()
				d.readSome()
				d.transact()
				placed = max(placed, placedIn(t, etcd))
			}
			d.look()
			d.readSome()
			t.Logf("%d keys were placed at once, of %d", placed, d.keys)
			if hits := a.cache.Stats().Hits; placed < 20 || hits < 100 {
				t.Errorf("%d keys were placed, %d reads were answered from the chain", placed, hits)
			}
		})
	}
}

// readSome reads keys one by one, most of them from the chain.
func (d *drawnTxns) readSome() {
	d.t.Helper()
	for range 30 {
		key := d.key()
		q := &pb.RangeRequest{Key: []byte(key)}
		got, want := must(d.gateway.Range(d.t.Context(), q))(d.t), new(pb.RangeResponse)
		if kv := d.now[key]; kv != nil {
			want.Count, want.Kvs = 1, []*mvccpb.KeyValue{kv}
		}
		d.translate(got.Kvs)
		got.Header = nil
		d.same(q, got, want, nil, nil)
	}
}

// transact executes one transaction, and waits for its outcome.
func (d *drawnTxns) transact() {
	d.t.Helper()
	compares, success, failure, holds := d.size(), d.size(), d.size(), d.rng.IntN(2) == 0
	gateway, plain := d.txn(compares, success, failure, holds, 2, make(map[string]bool))
	got, gotErr := d.gateway.Txn(d.t.Context(), gateway)
	want, wantErr := d.plain.Txn(d.t.Context(), plain)
	if d.answered(plain, got, want, gotErr, wantErr); d.t.Failed() {
		d.t.Fatalf("%d conditions that hold: %v; %d and %d operations", compares, holds, success, failure)
	}
}

// TestLimitsOfPlacedKeys: etcd's limit of 128 operations is the gateway's, for any number of placed keys.
func TestLimitsOfPlacedKeys(t *testing.T) {
	etcd := startEtcd(t)
	a, direct := startCached(t, etcd, startChain(t, 3, 4), pinned()), open(t, etcd)
	puts := func(prefix string, n int) (ops []clientv3.Op) {
		for i := range n {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s/%03d", prefix, i), prefix))
		}
		return ops
	}
	place := func(n int) {
		for i := range n {
			must(a.client.Get(t.Context(), fmt.Sprintf("k/%03d", i)))(t)
		}
		for placedIn(t, etcd) < int64(n) {
			must(a.client.Get(t.Context(), "k/000"))(t)
		}
	}
	write := func(name string, ops []clientv3.Op, want error) {
		t.Helper()
		if _, err := a.client.Txn(t.Context()).Then(ops...).Commit(); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	write("128 puts, none placed", puts("new", 128), nil)
	write("129 puts, none placed", puts("new", 129), rpctypes.ErrTooManyOps)
	place(300)
	write("64 puts of placed keys", puts("k", 64), nil)
	write("128 puts of placed keys", puts("k", 128), nil)
	write("129 puts of placed keys", puts("k", 129), rpctypes.ErrTooManyOps)
	write("127 puts and a deletion of everything behind", append(puts("k", 127), clientv3.OpDelete("k/127", clientv3.WithFromKey())), nil)
	if r := must(direct.Get(t.Context(), "k/", clientv3.WithPrefix()))(t); r.Count != 127 {
		t.Errorf("%d keys are left", r.Count)
	}
	conditions := make([]clientv3.Cmp, 128)
	for i := range conditions {
		conditions[i] = clientv3.Compare(clientv3.CreateRevision(fmt.Sprintf("none/%03d", i)), "=", 0)
	}
	for _, ops := range [][]clientv3.Op{puts("k", 1), puts("k", 128)} {
		answer := must(a.client.Txn(t.Context()).If(conditions...).Then(ops...).Commit())(t)
		if !answer.Succeeded || len(answer.Responses) != len(ops) {
			t.Errorf("128 conditions that hold: %v, %d answers to %d operations", answer.Succeeded, len(answer.Responses), len(ops))
		}
	}
	for i := range 300 {
		must(a.client.Put(t.Context(), fmt.Sprintf("k/%03d", i), "again"))(t)
	}
	if r := must(a.client.Delete(t.Context(), "", clientv3.WithPrefix()))(t); r.Deleted != 300 {
		t.Errorf("%d of 300 keys were deleted", r.Deleted)
	}
	for i := range 300 {
		if r := must(a.client.Get(t.Context(), fmt.Sprintf("k/%03d", i)))(t); r.Count != 0 {
			t.Fatalf("deleted, and still %v", r)
		}
	}
	if n := placedIn(t, etcd); n < 300 {
		t.Errorf("%d keys are placed", n)
	}
}

// pinned is a cache in which each key is placed at its first read.
func pinned() Cache {
	o := placement.Defaults()
	o.Pinned = []string{""}
	return Cache{Placement: o}
}

// TestRefusedAsByEtcd: a transaction that etcd refuses too gets etcd's own error, though the gateway does not know the
// members' limit yet.
func TestRefusedAsByEtcd(t *testing.T) {
	etcd := etcdtest.FreePort(t)
	startMember(t, etcd, etcdtest.FreePort(t), func(c *embed.Config) { c.MaxTxnOps = 70 })
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	puts := make([]clientv3.Op, 100)
	for i := range puts {
		puts[i] = clientv3.OpPut(fmt.Sprintf("k/%03d", i), "")
	}
	_, err := a.client.Txn(t.Context()).Then(puts...).Commit()
	if !errors.Is(err, rpctypes.ErrTooManyOps) {
		t.Errorf("%v", err)
	}
}

// TestAllConditionsOfALowLimit: a transaction with as many conditions as etcd allows is executed, also by a gateway that
// does not know yet that the members' limit is below the default.
func TestAllConditionsOfALowLimit(t *testing.T) {
	const most = 70
	etcd := etcdtest.FreePort(t)
	startMember(t, etcd, etcdtest.FreePort(t), func(c *embed.Config) { c.MaxTxnOps = most })
	a := startCached(t, etcd, startChain(t, 3, 1), Cache{})
	a.hot(t, "placed")
	conditions := make([]clientv3.Cmp, most)
	for i := range conditions {
		conditions[i] = clientv3.Compare(clientv3.CreateRevision(fmt.Sprintf("k/%03d", i)), "=", 0)
	}
	answer, err := a.client.Txn(t.Context()).If(conditions...).Then(clientv3.OpPut("placed", "new")).Commit()
	if err != nil || !answer.Succeeded {
		t.Errorf("%v: %v", answer, err)
	}
}
