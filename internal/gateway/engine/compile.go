package engine

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// compile makes a request of the gateway's own a transaction of etcd. What is read is read whether the conditions hold or not.
func compile(r *core.Request, lease int64) *pb.TxnRequest {
	t := new(pb.TxnRequest)
	below := -1
	for i := range r.If {
		if r.If[i].Kind == core.ValueBelow {
			below = i
		}
		t.Compare = append(t.Compare, compare(&r.If[i]))
	}
	for _, p := range r.Put {
		put := &pb.PutRequest{Key: []byte(p.Key), Value: []byte(p.Value), Lease: p.Lease}
		if p.Session {
			put.Lease = lease
		}
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}})
	}
	for _, key := range r.Delete {
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)},
		}})
	}
	for _, s := range r.Spans {
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(s.From), RangeEnd: []byte(s.End)},
		}})
	}
	if below >= 0 { // etcd compares no value of a key that does not exist: the other branch is for that
		absent := append([]*pb.Compare(nil), t.Compare...)
		absent[below] = compare(&core.Cond{Key: r.If[below].Key, Kind: core.CreateIs})
		t.Failure = append(t.Failure, &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{
			RequestTxn: &pb.TxnRequest{Compare: absent, Success: t.Success},
		}})
	}
	reads := reads(r)
	t.Success, t.Failure = append(t.Success, reads...), append(t.Failure, reads...)
	return linearizable(t)
}

// linearizable adds a read to a transaction that etcd would execute on a member's own state, which may be old: one that has
// no write and no linearizable read. The read is in the branch that is executed if the conditions fail, so the answers of
// the other one stay as they are.
func linearizable(t *pb.TxnRequest) *pb.TxnRequest {
	if core.OwnState(!txn.IsTxnReadonly(t), !txn.IsTxnSerializable(t), 0) {
		t.Failure = append(t.Failure, readNothing())
	}
	return t
}

// readNothing is a linearizable read that finds nothing.
func readNothing() *pb.RequestOp { return read(&pb.RangeRequest{Key: ownEmpty, CountOnly: true}) }

func reads(r *core.Request) (ops []*pb.RequestOp) {
	for _, key := range r.Get {
		ops = append(ops, read(&pb.RangeRequest{Key: []byte(key)}))
	}
	for _, prefix := range r.List {
		ops = append(ops, read(&pb.RangeRequest{Key: []byte(prefix), RangeEnd: behind(prefix)}))
	}
	return ops
}

func read(r *pb.RangeRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: r}}
}

// behind is [core.Behind] as etcd takes it.
func behind(prefix string) []byte { return []byte(core.Behind(prefix)) }

func compare(c *core.Cond) *pb.Compare {
	if raw, ok := c.Raw.(*pb.Compare); ok {
		return raw
	}
	p := &pb.Compare{Key: []byte(c.Key)}
	if c.End != "" {
		p.RangeEnd = []byte(c.End)
	}
	if c.Negate {
		p.Result = pb.Compare_NOT_EQUAL
	}
	switch c.Kind {
	case core.ModIs:
		p.Target, p.TargetUnion = pb.Compare_MOD, &pb.Compare_ModRevision{ModRevision: c.Rev}
	case core.CreateIs:
		p.Target, p.TargetUnion = pb.Compare_CREATE, &pb.Compare_CreateRevision{CreateRevision: c.Rev}
	case core.ValueIs:
		p.Target, p.TargetUnion = pb.Compare_VALUE, &pb.Compare_Value{Value: []byte(c.Value)}
	case core.ValueBelow, core.ExistsBelow:
		p.Result, p.Target, p.TargetUnion = pb.Compare_LESS, pb.Compare_VALUE, &pb.Compare_Value{Value: []byte(c.Value)}
	}
	return p
}

func compares(conditions []core.Cond) (all []*pb.Compare) {
	for i := range conditions {
		all = append(all, compare(&conditions[i]))
	}
	return all
}

// result reads etcd's answer to a compiled request.
func (e *Engine) result(t *pb.TxnResponse) *core.Result {
	result := &core.Result{Held: t.Succeeded, Rev: t.Header.Revision, KVs: make(map[string]core.KV)}
	for _, op := range t.Responses {
		if inner := op.GetResponseTxn(); inner != nil {
			result.Held = inner.Succeeded
		}
		e.take(result, op.GetResponseRange().GetKvs())
	}
	return result
}

// take adds keys to a result.
func (e *Engine) take(result *core.Result, kvs []*mvccpb.KeyValue) {
	for _, kv := range kvs {
		key := string(kv.Key)
		value, packed, fits := e.pack(key, kv.Value)
		result.KVs[key] = core.KV{
			Value: value, Create: kv.CreateRevision, Mod: kv.ModRevision, Version: kv.Version, Leased: kv.Lease != 0,
			Lease: kv.Lease, TooLarge: !fits, Packed: packed,
		}
	}
}
