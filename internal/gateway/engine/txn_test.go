package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// TestNegated: the negation of a condition holds for a key if and only if the condition does not. Only conditions on the order of
// values have none.
func TestNegated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	number := func() int64 {
		return []int64{math.MinInt64, -1, 0, 1, 2, 3, math.MaxInt64}[rng.IntN(7)]
	}
	for range 100_000 {
		c := &pb.Compare{Key: []byte("k"), Result: pb.Compare_CompareResult(rng.IntN(4)), Target: pb.Compare_CompareTarget(rng.IntN(5))}
		n := number()
		switch c.Target {
		case pb.Compare_VERSION:
			c.TargetUnion = &pb.Compare_Version{Version: n}
		case pb.Compare_CREATE:
			c.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: n}
		case pb.Compare_MOD:
			c.TargetUnion = &pb.Compare_ModRevision{ModRevision: n}
		case pb.Compare_LEASE:
			c.TargetUnion = &pb.Compare_Lease{Lease: n}
		case pb.Compare_VALUE:
			c.TargetUnion = &pb.Compare_Value{Value: []byte{byte(rng.IntN(3))}}
		}
		kv := &mvccpb.KeyValue{
			Version: number(), CreateRevision: number(), ModRevision: number(), Lease: number(), Value: []byte{byte(rng.IntN(3))},
		}
		not := negated(c)
		order := c.Result == pb.Compare_GREATER || c.Result == pb.Compare_LESS
		if not == nil {
			if !order || c.Target != pb.Compare_VALUE && n != math.MinInt64 && n != math.MaxInt64 {
				t.Fatalf("%v has no negation", c)
			}
			continue
		}
		if holds(c, kv) == holds(not, kv) {
			t.Fatalf("%v and %v for %v", c, not, kv)
		}
	}
}

// TestPins: a condition that fails is pinned by its negation where etcd has that, else by the key as it is.
func TestPins(t *testing.T) {
	kv := []*mvccpb.KeyValue{{Key: []byte("k"), ModRevision: 7, CreateRevision: 3}}
	value := &pb.Compare_Value{Value: []byte("v")}
	create := &pb.Compare_CreateRevision{CreateRevision: 5}
	key, end := []byte("k"), []byte("l")
	mod, absent := core.Cond{Key: "k", Kind: core.ModIs, Rev: 7}, core.Cond{Key: "k", Kind: core.CreateIs}
	for name, c := range map[string]struct {
		compare *pb.Compare
		kvs     []*mvccpb.KeyValue
		want    core.Cond // without Key: the negation
	}{
		"number":            {&pb.Compare{Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: create}, kv, core.Cond{}},
		"number, absent":    {&pb.Compare{Key: key, Target: pb.Compare_CREATE, Result: pb.Compare_GREATER, TargetUnion: create}, nil, core.Cond{}},
		"value":             {&pb.Compare{Key: key, Target: pb.Compare_VALUE, TargetUnion: value}, kv, core.Cond{}},
		"value, absent":     {&pb.Compare{Key: key, Target: pb.Compare_VALUE, TargetUnion: value}, nil, absent},
		"order of values":   {&pb.Compare{Key: key, Target: pb.Compare_VALUE, Result: pb.Compare_LESS, TargetUnion: value}, kv, mod},
		"range":             {&pb.Compare{Key: key, RangeEnd: end, Target: pb.Compare_CREATE, TargetUnion: create}, kv, mod},
		"range of no keys":  {&pb.Compare{Key: key, RangeEnd: end, Target: pb.Compare_CREATE, TargetUnion: create}, nil, core.Cond{Key: "k", End: "l", Kind: core.CreateIs}},
		"range, of numbers": {&pb.Compare{Key: key, RangeEnd: end, Target: pb.Compare_MOD, TargetUnion: &pb.Compare_ModRevision{ModRevision: 8}}, kv, mod},
	} {
		got := pinOf(c.compare, c.kvs)
		if c.want.Key == "" && got.Raw == nil || c.want.Key != "" && got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLooksReadNoValues: to find out which condition on one key fails takes none of its value.
func TestLooksReadNoValues(t *testing.T) {
	for target := range pb.Compare_CompareTarget_name {
		look := looks([]*pb.Compare{{Key: []byte("k"), Target: pb.Compare_CompareTarget(target)}})[0].GetRequestTxn()
		if len(look.Success) > 0 || len(look.Failure) != 1 || !look.Failure[0].GetRequestRange().KeysOnly {
			t.Errorf("%v", look)
		}
	}
}
