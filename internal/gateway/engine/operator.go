package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"

	"github.com/netcraq/netcraq/internal/gateway/core"
)

// What operators do with the gateways' own keys, without a gateway of their own.

// Clean deletes all of the gateways' own keys in etcd, unless gateways run: these are named then, and nothing is deleted.
func Clean(ctx context.Context, etcd *grpc.ClientConn) (deleted int64, running []string, err error) {
	r := core.Clean(OwnPrefix, 0)
	answer, err := ask(ctx, etcd, compile(&r, 0))
	if err != nil {
		return 0, nil, err
	}
	for _, op := range answer.Responses {
		deleted += op.GetResponseDeleteRange().GetDeleted()
		if answer.Succeeded {
			continue
		}
		for _, kv := range op.GetResponseRange().GetKvs() {
			running = append(running, describe(kv))
		}
	}
	return deleted, running, nil
}

// describe says which gateway has a session.
func describe(kv *mvccpb.KeyValue) string {
	session := strings.TrimPrefix(string(kv.Key), OwnPrefix+core.SessionPrefix)
	return cmp.Or(string(kv.Value), "a gateway of an earlier release, with session "+session)
}

// Running lists the gateways that have a session.
func Running(ctx context.Context, etcd *grpc.ClientConn) (running []string, err error) {
	from := OwnPrefix + core.SessionPrefix
	answer, err := pb.NewKVClient(etcd).Range(ctx, &pb.RangeRequest{Key: []byte(from), RangeEnd: behind(from)})
	for _, kv := range answer.GetKvs() {
		running = append(running, describe(kv))
	}
	return running, err
}

// Excluded lists the keys with a prefix that are not placed since a write reached etcd past the gateways.
func Excluded(ctx context.Context, etcd *grpc.ClientConn, prefix string) (keys []string, err error) {
	from := OwnPrefix + core.ExclusionPrefix + prefix
	answer, err := pb.NewKVClient(etcd).Range(ctx, &pb.RangeRequest{Key: []byte(from), RangeEnd: behind(from), KeysOnly: true})
	for _, kv := range answer.GetKvs() {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), OwnPrefix+core.ExclusionPrefix))
	}
	return keys, err
}

// Allow ends the exclusion of keys: [core.Allow].
func Allow(ctx context.Context, etcd *grpc.ClientConn, keys []string) (*core.Allowance, error) {
	a := core.Allow(OwnPrefix, slices.Sorted(slices.Values(keys)), 0)
	for r, more := a.Next(); more; r, more = a.Next() {
		result, err := operate(ctx, etcd, &r)
		if err != nil {
			return a, err
		}
		a.Took(result)
	}
	return a, nil
}

// operate executes a request of an operator.
func operate(ctx context.Context, etcd *grpc.ClientConn, r *core.Request) (*core.Result, error) {
	if r.Leases != 0 {
		result := sessionLeases(ctx, etcd, r.Leases)
		return result, result.Err
	}
	answer, err := ask(ctx, etcd, compile(r, 0))
	if err != nil {
		return nil, err
	}
	return ownResult(answer), nil
}
