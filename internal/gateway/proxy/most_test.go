package proxy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPutThenDeleted: etcd allows that one nested transaction puts a key and a later one deletes it. So does a gateway,
// though it arranges the operations of a transaction that has as many as etcd allows.
func TestPutThenDeleted(t *testing.T) {
	etcd := startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 4), pinned())
	ops := []clientv3.Op{
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("k", "put")}, nil),
		clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("k", clientv3.WithPrevKV())}, nil),
	}
	for i := range 125 {
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("other/%03d", i), ""))
	}
	for name, c := range map[string]*clientv3.Client{"etcd": open(t, etcd), "gateway": a.client} {
		answer, err := c.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		deleted := answer.Responses[1].GetResponseTxn().Responses[0].GetResponseDeleteRange()
		if len(answer.Responses) != 127 || deleted.Deleted != 1 || string(deleted.PrevKvs[0].Value) != "put" {
			t.Errorf("%s: %v", name, answer.Responses[:2])
		}
	}
}

func putOp(key string) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(key), Value: []byte(key)}}}
}

func rangeOp(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// absent are conditions that hold while keys do not exist, and exist one that does not.
func absent(n int) (conditions []*pb.Compare) {
	for i := range n {
		conditions = append(conditions, &pb.Compare{
			Key: fmt.Appendf(nil, "none/%03d", i), Target: pb.Compare_VERSION, TargetUnion: &pb.Compare_Version{},
		})
	}
	return conditions
}

func exist(key string) *pb.Compare {
	return &pb.Compare{
		Key: []byte(key), Target: pb.Compare_VERSION, Result: pb.Compare_GREATER, TargetUnion: &pb.Compare_Version{},
	}
}

// deepTxn nests transactions, each with one condition, of which every third does not hold, and a put.
func deepTxn(depth int, prefix string) *pb.TxnRequest {
	t := &pb.TxnRequest{Compare: absent(1)}
	if depth%3 == 0 {
		t.Compare = []*pb.Compare{exist("none")}
	}
	ops := []*pb.RequestOp{putOp(fmt.Sprintf("%s/%03d", prefix, depth))}
	if depth > 1 {
		ops = []*pb.RequestOp{txnOp(deepTxn(depth-1, prefix))}
	}
	if t.Success = ops; depth%3 == 0 {
		t.Success, t.Failure = nil, ops
	}
	return t
}

// TestAsManyConditionsAsEtcdAllows executes transactions with which etcd has no place for another condition.
func TestAsManyConditionsAsEtcdAllows(t *testing.T) {
	var puts []*pb.RequestOp
	for i := range 128 {
		puts = append(puts, putOp(fmt.Sprintf("k/%03d", i)))
	}
	missing := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("none"), IgnoreValue: true}}}
	unleased := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte("k"), Lease: 77}}}
	everything := rangeOp(&pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, KeysOnly: true})
	future := rangeOp(&pb.RangeRequest{Key: []byte("k/000"), Revision: math.MaxInt64 - 1})
	one := func(ops ...*pb.RequestOp) []*pb.RequestOp { return ops }
	fails := append(absent(127), exist("none"))
	etcd := startEtcd(t)
	a := startCached(t, etcd, startChain(t, 3, 4), pinned())
	d := &drawnTxns{beside: besideEtcd(t, a.address, startEtcd(t))}
	for i := range 128 {
		d.put(fmt.Sprintf("k/%03d", i), "")
		a.hot(t, fmt.Sprintf("k/%03d", i))
	}
	for i, q := range []*pb.TxnRequest{
		{Compare: absent(128), Success: one(putOp("k/000"))},
		{Compare: absent(128), Success: puts},
		{Compare: absent(128), Success: puts, Failure: puts},
		{Compare: fails, Success: one(putOp("k/000")), Failure: puts},
		{Compare: absent(129), Success: one(putOp("k/000"))},
		{Compare: absent(128), Success: append(puts[:127:127], everything)},
		{Compare: absent(128), Success: one(everything)},
		{Compare: fails, Failure: one(everything)},
		{Compare: absent(128), Success: append(slices.Repeat(one(everything), 127), putOp("k/000"))},
		{Compare: absent(128), Failure: puts},
		{Compare: absent(128), Success: one(putOp("k/000"), missing)},
		{Compare: fails, Success: one(missing), Failure: one(putOp("k/000"))},
		{Compare: absent(128), Success: one(putOp("k/000"), unleased)},
		{Compare: absent(128), Success: one(putOp("k/000"), future)},
		{Compare: fails, Success: one(future), Failure: one(putOp("k/000"))},
		{Compare: absent(100), Success: one(txnOp(&pb.TxnRequest{Compare: absent(28), Success: puts[:28]}))},
		{Compare: absent(1), Success: one(txnOp(&pb.TxnRequest{Compare: absent(127), Success: puts[:127]}))},
		{Compare: absent(1), Success: one(txnOp(&pb.TxnRequest{Compare: append(absent(126), exist("none")), Failure: puts[:127]}))},
		{Compare: absent(2), Success: one(
			txnOp(&pb.TxnRequest{Compare: absent(126), Success: one(putOp("k/001"))}),
			txnOp(&pb.TxnRequest{Compare: fails[2:], Success: one(future), Failure: one(putOp("k/002"), everything)}),
		)},
		{Compare: absent(2), Success: one(
			txnOp(&pb.TxnRequest{Compare: absent(126), Success: one(putOp("k/001"))}),
			txnOp(&pb.TxnRequest{Compare: absent(126), Success: one(&pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
				RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte("k/001"), PrevKv: true},
			}})}),
		)},
		{Success: one(txnOp(deepTxn(127, "k")))},
		deepTxn(127, "k"),
		deepTxn(128, "k"),
	} {
		got, gotErr := d.gateway.Txn(t.Context(), q)
		want, wantErr := d.plain.Txn(t.Context(), q)
		if d.answered(q, got, want, gotErr, wantErr); t.Failed() {
			t.Fatalf("transaction %d", i)
		}
		d.look()
		for i := range 32 {
			q := &pb.RangeRequest{Key: fmt.Appendf(nil, "k/%03d", 4*i)}
			got, want := must(d.gateway.Range(t.Context(), q))(t), must(d.plain.Range(t.Context(), q))(t)
			d.translate(got.Kvs)
			got.Header, want.Header = nil, nil
			d.same(q, got, want, nil, nil)
		}
	}
	if hits := a.cache.Stats().Hits; hits < 200 {
		t.Errorf("%d reads were answered from the chain", hits)
	}
}

// TestConditionsAsOperationsAreAtomic: clients count, in transactions with as many conditions as etcd allows, all of which
// hold while the counter is what a client has read. Each success counts once.
func TestConditionsAsOperationsAreAtomic(t *testing.T) {
	const clients, each = 4, 25
	a := startCached(t, startEtcd(t), startChain(t, 3, 4), pinned())
	must(a.client.Put(t.Context(), "counter", "0"))(t)
	a.hot(t, "counter")
	errs := make(chan error, clients)
	for range clients {
		go func() { errs <- count(t.Context(), a.client, each) }()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if got := string(must(a.client.Get(t.Context(), "counter"))(t).Kvs[0].Value); got != fmt.Sprint(clients*each) {
		t.Errorf("%s, want %d", got, clients*each)
	}
}

// count increments a counter.
func count(ctx context.Context, c *clientv3.Client, times int) error {
	conditions := make([]clientv3.Cmp, 128)
	for i := range conditions {
		conditions[i] = clientv3.Compare(clientv3.CreateRevision(fmt.Sprintf("none/%03d", i)), "=", 0)
	}
	for done := 0; done < times; {
		got, err := c.Get(ctx, "counter")
		if err != nil {
			return err
		}
		is, err := strconv.Atoi(string(got.Kvs[0].Value))
		if err != nil {
			return err
		}
		conditions[100] = clientv3.Compare(clientv3.Version("counter"), "=", got.Kvs[0].Version)
		answer, err := c.Txn(ctx).If(conditions...).Then(clientv3.OpPut("counter", strconv.Itoa(is+1))).Commit()
		switch {
		case status.Code(err) == codes.Unavailable: // nothing was applied: other clients were faster each time
		case err != nil:
			return err
		case answer.Succeeded:
			done++
		}
	}
	return nil
}
