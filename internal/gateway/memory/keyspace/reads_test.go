package keyspace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"go.uber.org/zap"
)

func readOp(key, end string) *pb.RequestOp {
	r := &pb.RangeRequest{Key: []byte(key), RangeEnd: []byte(end)}
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

func removeOp(key, end string) *pb.RequestOp {
	op := opDelete(key, end)
	op.GetRequestDeleteRange().PrevKv = true
	return op
}

func repeated(op *pb.RequestOp, n int) (ops []*pb.RequestOp) {
	for range n {
		ops = append(ops, op)
	}
	return ops
}

// built returns how many bytes a call allocates, whether they are in use afterwards or not.
func built(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadsAreBounded: a command that reads too much is refused as a whole before it takes much memory, whatever it
// reads: keys that are present, conditions, previous values, and what it has just put itself.
func TestReadsAreBounded(t *testing.T) {
	big := make([]byte, 1<<20)
	everything := readOp("\x00", "\x00")
	all := func(op *pb.RequestOp, n int) []*pb.RequestOp { return append(repeated(op, n), puts("new")) }
	limited := readOp("\x00", "\x00")
	limited.GetRequestRange().Limit = 1
	sorted := readOp("\x00", "\x00")
	sorted.GetRequestRange().Limit, sorted.GetRequestRange().SortOrder = 1, pb.RangeRequest_DESCEND
	names := readOp("\x00", "\x00")
	names.GetRequestRange().KeysOnly = true
	count := readOp("\x00", "\x00")
	count.GetRequestRange().CountOnly = true
	condition := &pb.Compare{
		Key: []byte{0}, RangeEnd: []byte{0}, Target: pb.Compare_LEASE, TargetUnion: &pb.Compare_Lease{},
	}
	nested := opTxn(&pb.TxnRequest{Success: all(everything, 126)})
	own := putOp(&pb.PutRequest{Key: []byte("own"), Value: big})
	for name, c := range map[string]struct {
		r       *pb.InternalRaftRequest
		refused bool
	}{
		"once":               {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(everything, 1)}}, false},
		"127 times":          {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(everything, 127)}}, true},
		"the other branch":   {&pb.InternalRaftRequest{Txn: exists("none", nil, all(everything, 127))}, true},
		"nested":             {&pb.InternalRaftRequest{Txn: exists("k0", []*pb.RequestOp{nested}, nil)}, true},
		"one key":            {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(readOp("k0", ""), 127)}}, true},
		"limited":            {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(limited, 7)}}, false},
		"limited, 127 times": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(limited, 127)}}, true},
		"sorted":             {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(sorted, 127)}}, true},
		"keys only":          {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(names, 127)}}, false},
		"counts":             {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: all(count, 127)}}, false},
		"conditions": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{
			Compare: []*pb.Compare{condition, condition, condition}, Success: all(everything, 0),
		}}, true},
		"its own put": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{
			Success: append([]*pb.RequestOp{own}, repeated(readOp("own", ""), 127)...),
		}}, true},
		"its own put, once": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{
			Success: []*pb.RequestOp{own, readOp("o", "p")},
		}}, false},
		"deletion": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{
			Success: []*pb.RequestOp{everything, everything, removeOp("k", "l")},
		}}, true},
		"values again": {&pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: append(keepValues(8), everything)}}, true},
		"deletion alone": {&pb.InternalRaftRequest{DeleteRange: &pb.DeleteRangeRequest{
			Key: []byte{0}, RangeEnd: []byte{0}, PrevKv: true,
		}}, false},
	} {
		k := newKeyspace(t)
		for i := range 8 {
			must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i), Value: big}})
		}
		before, err := k.Revision(), error(nil)
		n := built(func() { _, err = apply(t, k, c.r) })
		if refused := errors.Is(err, ErrReads); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v, want refused: %v", name, err, c.refused)
		}
		if n > 4*maxReads {
			t.Errorf("%s: %d bytes were built", name, n)
		}
		if c.refused && k.Revision() != before {
			t.Errorf("%s: refused, and executed in part", name)
		}
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("k0"), Value: []byte("after")}})
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadsBehindDeletions: a limited range returns large objects that stand behind small ones which the same transaction
// has deleted.
func TestReadsBehindDeletions(t *testing.T) {
	k := newKeyspace(t)
	must(t, k, &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{puts("a0"), puts("a1")}}})
	must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: []byte("k"), Value: make([]byte, 1<<20)}})
	limited := readOp("\x00", "\x00")
	limited.GetRequestRange().Limit = 1
	remove := exists("a0", []*pb.RequestOp{opDelete("a", "b")}, nil)
	for name, c := range map[string]struct {
		deletion *pb.RequestOp
		reads    int
		refused  bool
	}{
		"few reads":  {opDelete("a", "b"), 15, false},
		"many reads": {opDelete("a", "b"), 16, true},
		"nested":     {opTxn(remove), 16, true},
	} {
		ops := append([]*pb.RequestOp{c.deletion}, repeated(limited, c.reads)...)
		if err := k.CheckReads(&pb.TxnRequest{Success: ops}); errors.Is(err, ErrReads) != c.refused {
			t.Errorf("%s: %v, want refused: %v", name, err, c.refused)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// keepValues puts the first keys with the values that they have.
func keepValues(n int) (ops []*pb.RequestOp) {
	for i := range n {
		ops = append(ops, putOp(&pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i), IgnoreValue: true}))
	}
	return ops
}

// TestLargeDeletionIsRefused: a deletion that would return too many previous values is refused. Without them it is
// executed.
func TestLargeDeletionIsRefused(t *testing.T) {
	k := newKeyspace(t)
	for i := range 17 {
		must(t, k, &pb.InternalRaftRequest{Put: &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, 1<<20)}})
	}
	d := &pb.DeleteRangeRequest{Key: []byte("k"), RangeEnd: []byte("l"), PrevKv: true}
	if _, err := apply(t, k, &pb.InternalRaftRequest{DeleteRange: d}); !errors.Is(err, ErrReads) {
		t.Errorf("%v", err)
	}
	d.PrevKv = false
	if r := must(t, k, &pb.InternalRaftRequest{DeleteRange: d}).(*pb.DeleteRangeResponse); r.Deleted != 17 {
		t.Errorf("%v", r)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// answered returns what an answer to a transaction has, as maxReads counts.
func answered(r *pb.TxnResponse) (n int64) {
	add := func(kvs ...*mvccpb.KeyValue) {
		for _, kv := range kvs {
			if kv != nil {
				n += int64(entryOverhead + len(kv.Key) + len(kv.Value))
			}
		}
	}
	for _, op := range r.Responses {
		add(op.GetResponseRange().GetKvs()...)
		add(op.GetResponseDeleteRange().GetPrevKvs()...)
		add(op.GetResponsePut().GetPrevKv())
		if nested := op.GetResponseTxn(); nested != nil {
			n += answered(nested)
		}
	}
	return n
}

// TestReadsAreMeasured: no random transaction's answer has more than was measured before. A copy that was made from a
// snapshot measures the same.
func TestReadsAreMeasured(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := newKeyspace(t)
	equal := 0
	for i := range 3000 {
		if i%100 == 0 {
			for j := range 10 {
				put := &pb.PutRequest{Key: fmt.Appendf(nil, "k%d", j), Value: make([]byte, random.IntN(1000))}
				must(t, k, &pb.InternalRaftRequest{Put: put})
			}
		}
		q := &pb.TxnRequest{Success: randomOps(random, 2), Failure: randomOps(random, 2)}
		if random.IntN(2) == 0 {
			q.Compare = exists("k1", nil, nil).Compare
		}
		if Executable(q) != nil || twice(q.Success) || twice(q.Failure) {
			continue
		}
		measured := (&meter{k: k, most: math.MaxInt64}).txn(q, 0)
		if i%20 == 0 {
			twin := restore(t, k.Snapshot())
			if n := (&meter{k: twin, most: math.MaxInt64}).txn(q, 0); n != measured {
				t.Fatalf("%v: %d, and %d from a snapshot", q, measured, n)
			}
			if err := twin.Close(); err != nil {
				t.Error(err)
			}
		}
		r := must(t, k, &pb.InternalRaftRequest{Txn: q}).(*pb.TxnResponse)
		n := answered(r)
		if n > measured {
			t.Fatalf("%v: %d measured, the answer has %d: %v", q, measured, n, r)
		}
		if n > 0 && measured-n < 100 {
			equal++
		}
	}
	if equal < 100 {
		t.Errorf("%d answers are about as large as measured", equal)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestRangesAreMeasured: no range's answer has more than was measured before, and one without order or filter has no more
// than one object less.
func TestRangesAreMeasured(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	k := newKeyspace(t)
	const keys, largest = 3*measuredAtATime + 1, 300
	for i := range keys {
		put := putOp(&pb.PutRequest{Key: fmt.Appendf(nil, "k%04d", i), Value: make([]byte, random.IntN(largest))})
		also := putOp(&pb.PutRequest{Key: []byte("l"), Value: make([]byte, largest)}) // in one revision with others
		must(t, k, &pb.InternalRaftRequest{Txn: &pb.TxnRequest{Success: []*pb.RequestOp{put, also}}})
	}
	for i := range 200 {
		q := &pb.RangeRequest{
			Key: fmt.Appendf(nil, "k%04d", random.IntN(keys)), RangeEnd: fmt.Appendf(nil, "k%04d", random.IntN(keys)),
			KeysOnly: random.IntN(4) == 0, CountOnly: random.IntN(8) == 0,
			Limit: []int64{0, 1, measuredAtATime, 2*measuredAtATime + 1, math.MaxInt64}[random.IntN(5)],
		}
		if i%4 == 0 {
			q.Key, q.RangeEnd = []byte{0}, []byte{0}
		}
		if random.IntN(3) == 0 {
			q.SortOrder, q.SortTarget = pb.RangeRequest_DESCEND, pb.RangeRequest_SortTarget(random.IntN(5))
		}
		measured := k.RangeReads(q)
		r, _, err := txn.Range(t.Context(), zap.NewNop(), k.Store(), q, true)
		if err != nil {
			t.Fatal(err)
		}
		op := &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: r}}
		n := answered(&pb.TxnResponse{Responses: []*pb.ResponseOp{op}})
		const overhead = entryOverhead + 100 // the encoding of an object's other fields
		most := n + int64(len(r.Kvs)+1)*100 + largest + overhead
		if n > measured || q.SortOrder == pb.RangeRequest_NONE && measured > most {
			t.Fatalf("%v: %d measured, the answer has %d with %d objects", q, measured, n, len(r.Kvs))
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// twice reports whether operations may put a key twice, or put and delete it, which the gateway's checks refuse.
func twice(ops []*pb.RequestOp) bool {
	changed := make(map[string]bool)
	var again func(ops []*pb.RequestOp) bool
	again = func(ops []*pb.RequestOp) bool {
		for _, op := range ops {
			if d := op.GetRequestDeleteRange(); d != nil {
				for j := range 10 {
					key := fmt.Sprintf("k%d", j)
					if key == string(d.Key) || key > string(d.Key) && key < string(d.RangeEnd) {
						if changed[key] {
							return true
						}
						changed[key] = true
					}
				}
			}
			if p := op.GetRequestPut(); p != nil {
				if changed[string(p.Key)] {
					return true
				}
				changed[string(p.Key)] = true
			}
			if q := op.GetRequestTxn(); q != nil && (again(q.Success) || again(q.Failure)) {
				return true
			}
		}
		return false
	}
	return again(ops)
}

func randomOps(random *rand.Rand, depth int) (ops []*pb.RequestOp) {
	key := func() string { return fmt.Sprintf("k%d", random.IntN(10)) }
	end := func() string { return []string{"", key(), "\x00", "l"}[random.IntN(4)] }
	for range random.IntN(5) {
		switch random.IntN(6) {
		case 0:
			if depth > 0 {
				q := exists(key(), randomOps(random, depth-1), randomOps(random, depth-1))
				ops = append(ops, opTxn(q))
			}
		case 1:
			ops = append(ops, removeOp(key(), end()))
		case 2, 3:
			ops = append(ops, putOp(&pb.PutRequest{
				Key: []byte(key()), Value: make([]byte, random.IntN(1000)), PrevKv: random.IntN(2) == 0,
			}))
		default:
			op := readOp(key(), end())
			r := op.GetRequestRange()
			r.Limit, r.KeysOnly = int64(random.IntN(3)), random.IntN(4) == 0
			r.SortOrder = pb.RangeRequest_SortOrder(random.IntN(3))
			r.SortTarget = pb.RangeRequest_SortTarget(random.IntN(5))
			ops = append(ops, op)
		}
	}
	return ops
}
