package engine

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// The gateways' own keys are hidden from clients of gateways. Who uses etcd directly can delete them.

// chainKey has the name of the chain of all gateways.
const chainKey = OwnPrefix + core.ChainName

// proveKeys checks that etcd has the keys of a session, and the name of the chain.
func (e *Engine) proveKeys(l *lease) bool {
	var proof core.Proof
	e.do(func(g *core.Gateway) { proof = g.Prove(l.name) })
	ctx, cancel := context.WithTimeout(l.ctx, ownWithin)
	defer cancel()
	r, err := e.ownKeys(ctx, append(proof.Keys, chainKey))
	if err != nil {
		e.o.Log.Debug("the session's keys are not read", "error", err)
		return false
	}
	yes := false
	e.do(func(g *core.Gateway) { yes = g.Proved(proof, r) })
	if !yes && l.ctx.Err() == nil {
		e.o.Log.Error("somebody deleted keys of the gateway's session in etcd; it begins another", "session", l.name)
	}
	return yes && e.proveChain(ctx, r)
}

// ownKeys reads keys of the gateways, with their values as they are.
func (e *Engine) ownKeys(ctx context.Context, keys []string) (*core.Result, error) {
	return e.executeOwn(ctx, &core.Request{Get: keys})
}

// executeOwn executes a request for keys of the gateways, with their values as they are.
func (e *Engine) executeOwn(ctx context.Context, request *core.Request) (*core.Result, error) {
	e.own.count(request)
	answer, err := pb.NewKVClient(e.o.Etcd).Txn(ctx, compile(request, 0))
	if err != nil {
		return nil, err
	}
	e.Saw(answer.Header)
	return ownResult(answer), nil
}

// ownResult reads etcd's answer to a request for the gateways' own keys.
func ownResult(answer *pb.TxnResponse) *core.Result {
	r := &core.Result{Held: answer.Succeeded, Rev: answer.Header.Revision, KVs: make(map[string]core.KV)}
	for _, op := range answer.Responses {
		for _, kv := range op.GetResponseRange().GetKvs() {
			r.KVs[string(kv.Key)] = core.KV{Value: string(kv.Value), Create: kv.CreateRevision, Mod: kv.ModRevision}
		}
	}
	return r
}

// sessionLeases lists the leases of sessions, as a member of etcd has them that has a revision. A member makes the list
// and then names its revision. So it is one that had the revision when it was asked before.
func sessionLeases(ctx context.Context, etcd grpc.ClientConnInterface, rev int64) *core.Result {
	client, had := pb.NewLeaseClient(etcd), make(map[uint64]bool)
	for {
		answer, err := client.LeaseLeases(ctx, new(pb.LeaseLeasesRequest))
		if err != nil {
			return &core.Result{Unknown: true, Err: err}
		}
		member := answer.Header.GetMemberId()
		if had[member] {
			r := &core.Result{Rev: answer.Header.GetRevision()}
			for _, l := range answer.Leases {
				if OwnLease(l.ID) {
					r.Leases = append(r.Leases, l.ID)
				}
			}
			return r
		}
		if had[member] = answer.Header.GetRevision() >= rev; !had[member] {
			retry.Sleep(ctx, again)
		}
	}
}

// proveChain checks the name of the chain. If somebody has deleted it, it is written again.
func (e *Engine) proveChain(ctx context.Context, r *core.Result) bool {
	kv, is := r.KVs[chainKey]
	switch {
	case is && kv.Value == e.chain:
		return true
	case is:
		select {
		case e.failed <- fmt.Errorf("%w: its key %s is %q, this gateway's is %q", ErrOtherChain, chainKey, kv.Value, e.chain):
		default: // one error ends the gateway
		}
		return false
	}
	again := &core.Request{If: []core.Cond{{Key: chainKey, Kind: core.CreateIs}}, Put: []core.Put{{Key: chainKey, Value: e.chain}}}
	if err := e.execute(ctx, again, nil).Err; err != nil {
		e.o.Log.Debug("the name of the chain is not written again", "error", err)
	} else {
		e.o.Log.Error("somebody deleted a key of the gateways in etcd; it is written again", "key", chainKey)
	}
	return false // another gateway may have been faster
}

// watchSession ends a session as soon as somebody deletes its key.
func (e *Engine) watchSession(l *lease, from int64) {
	key := OwnPrefix + core.SessionPrefix + l.name
	_ = e.follow(l.ctx, key, "", from, func(events []*mvccpb.Event) { // it ends with the session, or when etcd compacted
		if events[len(events)-1].Type == mvccpb.Event_DELETE {
			e.proveKeys(l)
		}
	})
}
