package proxy

import (
	"bytes"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/gateway/engine"
)

// The gateways' own keys are left out of ranges that cover them: clients that list, count, watch or delete everything see their own keys
// only. A range that lies among the gateways' keys is executed as it is, so that operators reach them.

// span is a range of keys. An end of one zero byte is behind all keys.
type span struct{ key, end []byte }

var ownFirst = []byte(engine.OwnPrefix)

// around returns the parts of a range beside the gateways' own keys; covers is false if it has none of these, or nothing else.
func around(key, end []byte) (parts []span, covers bool) {
	if len(end) == 0 {
		return nil, false
	}
	beside, covers := core.Beside(core.Span{From: string(key), End: string(end)}, engine.OwnPrefix, string(engine.OwnEnd), 0)
	for _, s := range beside {
		parts = append(parts, span{[]byte(s.From), []byte(s.End)})
	}
	return parts, covers
}

// own reports whether a key is one of the gateways'.
func own(key []byte) bool { return bytes.HasPrefix(key, ownFirst) }

// splitDelete makes a deletion that covers the gateways' own keys a transaction of deletions beside them; nil: it does not.
func splitDelete(r *pb.DeleteRangeRequest) *pb.TxnRequest {
	parts, covers := around(r.Key, r.RangeEnd)
	if !covers {
		return nil
	}
	t := new(pb.TxnRequest)
	for _, p := range parts {
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: p.key, RangeEnd: p.end, PrevKv: r.PrevKv},
		}})
	}
	return t
}

// joinDeletes makes the answers to the parts of a deletion one.
func joinDeletes(ops []*pb.ResponseOp) *pb.DeleteRangeResponse {
	whole := new(pb.DeleteRangeResponse)
	for _, op := range ops {
		part := op.GetResponseDeleteRange()
		whole.Header = part.GetHeader()
		whole.Deleted += part.GetDeleted()
		whole.PrevKvs = append(whole.PrevKvs, part.GetPrevKvs()...)
	}
	return whole
}

// splitOp returns an operation without the gateways' own keys, and what makes its answer one to the operation as it was; nil: it
// covers none.
func splitOp(op *pb.RequestOp) (*pb.RequestOp, func(*pb.ResponseOp) *pb.ResponseOp) {
	switch {
	case op.GetRequestRange() != nil:
		r := op.GetRequestRange()
		if t := splitRange(r); t != nil {
			return txnOp(t), func(a *pb.ResponseOp) *pb.ResponseOp {
				whole := joinRanges(r, a.GetResponseTxn().GetResponses())
				return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: whole}}
			}
		}
	case op.GetRequestDeleteRange() != nil:
		if t := splitDelete(op.GetRequestDeleteRange()); t != nil {
			return txnOp(t), func(a *pb.ResponseOp) *pb.ResponseOp {
				whole := joinDeletes(a.GetResponseTxn().GetResponses())
				return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: whole}}
			}
		}
	case op.GetRequestTxn() != nil:
		if t, join := splitTxn(op.GetRequestTxn()); t != nil {
			return txnOp(t), func(a *pb.ResponseOp) *pb.ResponseOp {
				join(a.GetResponseTxn())
				return a
			}
		}
	}
	return nil, nil
}

func txnOp(t *pb.TxnRequest) *pb.RequestOp {
	return &pb.RequestOp{Request: &pb.RequestOp_RequestTxn{RequestTxn: t}}
}

// splitTxn returns a transaction without the gateways' own keys, and what corrects its answer; nil: it covers none. Conditions on
// ranges stay as they are.
func splitTxn(r *pb.TxnRequest) (*pb.TxnRequest, func(*pb.TxnResponse)) {
	success, joinSuccess := splitOps(r.Success)
	failure, joinFailure := splitOps(r.Failure)
	if joinSuccess == nil && joinFailure == nil {
		return nil, nil
	}
	t := &pb.TxnRequest{Compare: r.Compare, Success: success, Failure: failure}
	return t, func(a *pb.TxnResponse) {
		joins := joinFailure
		if a.GetSucceeded() {
			joins = joinSuccess
		}
		for i, join := range joins {
			if i < len(a.Responses) {
				a.Responses[i] = join(a.Responses[i])
			}
		}
	}
}

// splitOps returns the operations, and what corrects the answers by index; nil: none covers the gateways' keys.
func splitOps(ops []*pb.RequestOp) ([]*pb.RequestOp, map[int]func(*pb.ResponseOp) *pb.ResponseOp) {
	var joins map[int]func(*pb.ResponseOp) *pb.ResponseOp
	split := slices.Clone(ops)
	for i, op := range ops {
		if t, join := splitOp(op); t != nil {
			if joins == nil {
				joins = make(map[int]func(*pb.ResponseOp) *pb.ResponseOp)
			}
			split[i], joins[i] = t, join
		}
	}
	return split, joins
}

// withoutOwn removes the gateways' own events from an answer to a watch. send is false if nothing is left to tell. The last fragment
// of an answer is sent in any case, since its client waits for it. Without events it is a notification of progress, up to the event
// that was removed.
func withoutOwn(a *pb.WatchResponse, fragments bool) (send bool) {
	if len(a.Events) == 0 {
		return true
	}
	last := a.Events[len(a.Events)-1].GetKv().GetModRevision()
	a.Events = slices.DeleteFunc(a.Events, func(e *mvccpb.Event) bool { return own(e.GetKv().GetKey()) })
	if len(a.Events) > 0 {
		return true
	}
	if a.Header != nil {
		a.Header.Revision = last
	}
	return fragments && !a.Fragment
}

// withoutOwnLeases removes the leases of gateways' sessions from a list.
func withoutOwnLeases(a *pb.LeaseLeasesResponse) {
	a.Leases = slices.DeleteFunc(a.Leases, func(l *pb.LeaseStatus) bool { return engine.OwnLease(l.GetID()) })
}
