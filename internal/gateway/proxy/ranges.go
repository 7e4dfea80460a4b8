package proxy

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver/txn"
	"google.golang.org/protobuf/proto"
)

// splitRange makes a range that covers the gateways' own keys a transaction of ranges beside them; nil: it does not.
func splitRange(r *pb.RangeRequest) *pb.TxnRequest {
	parts, covers := around(r.Key, r.RangeEnd)
	if !covers {
		return nil
	}
	t := new(pb.TxnRequest)
	for _, p := range parts {
		part := proto.CloneOf(r)
		part.Key, part.RangeEnd, part.Limit = p.key, p.end, considered(r)
		if knownSort(r) {
			part.SortOrder, part.SortTarget = pb.RangeRequest_NONE, pb.RangeRequest_KEY // joinRanges sorts the whole
		}
		if r.SortTarget == pb.RangeRequest_VALUE {
			part.KeysOnly = false
		}
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestRange{RequestRange: part}})
	}
	return t
}

// knownSort reports whether etcd knows how to sort; else it refuses the range.
func knownSort(r *pb.RangeRequest) bool {
	_, order := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]
	_, target := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]
	return order && target
}

// considered is the number of keys, in their order, among which etcd selects those of the answer; 0: all. It is one
// more than the limit, even if etcd then sorts by another target.
func considered(r *pb.RangeRequest) int64 {
	switch {
	case r.Limit <= 0, !txn.IsDefaultOrdering(r.SortTarget, r.SortOrder):
		return 0
	case txn.HasRevisionFilters(r) && r.SortTarget != pb.RangeRequest_KEY:
		return 0
	case r.Limit == math.MaxInt64:
		return r.Limit
	}
	return r.Limit + 1
}

// joinRanges makes the answers to the parts of a range one.
func joinRanges(r *pb.RangeRequest, ops []*pb.ResponseOp) *pb.RangeResponse {
	whole := new(pb.RangeResponse)
	for _, op := range ops {
		part := op.GetResponseRange()
		whole.Header = part.GetHeader()
		whole.Count += part.GetCount()
		whole.Kvs = append(whole.Kvs, part.GetKvs()...)
	}
	if most := considered(r); most > 0 && int64(len(whole.Kvs)) > most {
		whole.Kvs = whole.Kvs[:most]
	}
	sortAsEtcd(r, whole.Kvs)
	if r.Limit > 0 && int64(len(whole.Kvs)) > r.Limit {
		whole.Kvs, whole.More = whole.Kvs[:r.Limit], true
	}
	if r.KeysOnly {
		for _, kv := range whole.Kvs {
			kv.Value = nil
		}
	}
	return whole
}

// sorted sorts keys. It is etcd's own algorithm, which is not stable, so that equal keys have etcd's order.
type sorted struct {
	kvs     []*mvccpb.KeyValue
	compare func(a, b *mvccpb.KeyValue) int
}

func (s *sorted) Len() int           { return len(s.kvs) }
func (s *sorted) Less(i, j int) bool { return s.compare(s.kvs[i], s.kvs[j]) < 0 }
func (s *sorted) Swap(i, j int)      { s.kvs[i], s.kvs[j] = s.kvs[j], s.kvs[i] }

// sortAsEtcd sorts keys that are in the order of their names.
func sortAsEtcd(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	by := &sorted{kvs: kvs}
	switch r.SortTarget {
	case pb.RangeRequest_VERSION:
		by.compare = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) }
	case pb.RangeRequest_CREATE:
		by.compare = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	case pb.RangeRequest_MOD:
		by.compare = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) }
	case pb.RangeRequest_VALUE:
		by.compare = func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) }
	default:
		if r.SortOrder == pb.RangeRequest_DESCEND {
			slices.Reverse(kvs)
		}
		return
	}
	if r.SortOrder == pb.RangeRequest_DESCEND {
		sort.Sort(sort.Reverse(by))
	} else {
		sort.Sort(by)
	}
}
