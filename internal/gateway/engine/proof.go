package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

var (
	// ErrAuth says that etcd asks its clients who they are. The chain does not, so nothing is cached.
	ErrAuth = errors.New("etcd has authentication enabled")
	// ErrRestored says that etcd has another history than before.
	ErrRestored = errors.New("etcd was restored from a backup")
)

// unauthorized reports whether etcd refuses a request because its client has not said who it is.
func unauthorized(err error) bool {
	for _, known := range []error{rpctypes.ErrUserEmpty, rpctypes.ErrPermissionDenied, rpctypes.ErrInvalidAuthToken} {
		if errors.Is(rpctypes.Error(err), known) {
			return true
		}
	}
	code := status.Code(err)
	return code == codes.PermissionDenied || code == codes.Unauthenticated
}

// prove checks, each time before the session counts as extended, that etcd still answers everybody, and that its history is the one
// that the chain's objects come from: etcd's revision is read after the chain's, which is not above it then.
func (e *Engine) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownWithin)
	defer cancel()
	floor := e.newest.Load()
	chain := e.store.Revision(ctx)
	answer, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{Key: []byte(eraKey)})
	switch {
	case unauthorized(err):
		return ErrAuth
	case err != nil:
		return err
	}
	era := ""
	for _, kv := range answer.Kvs {
		era = string(kv.Value)
	}
	header := answer.Header
	switch {
	case header.ClusterId != e.cluster:
		return fmt.Errorf("%w: its cluster was %x, and is %x", ErrRestored, e.cluster, header.ClusterId)
	case era != e.era:
		return fmt.Errorf("%w, as another gateway noticed", ErrRestored)
	case header.Revision < floor || chain.Status == core.OK && header.Revision < chain.Rev:
		return errors.Join(fmt.Errorf("%w: its revision was %d, and is %d", ErrRestored, max(floor, chain.Rev), header.Revision), e.newEra(ctx))
	case chain.Status == core.OK, chain.Status == core.Miss:
		e.proved.Store(true)
	}
	e.Saw(header)
	return nil
}

// eraKey has the name of etcd's history since a restored backup; it is absent before the first. Objects of different eras have
// different keys in the chain.
const eraKey = OwnPrefix + "era"

// newEra takes everything out of etcd that belongs to the objects of another history. Other gateways notice that their sessions are gone,
// or the new era, before they extend their sessions.
func (e *Engine) newEra(ctx context.Context) error {
	directory, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{
		Key: []byte(OwnPrefix + core.DirectoryPrefix), RangeEnd: behind(OwnPrefix + core.DirectoryPrefix), KeysOnly: true,
	})
	if err != nil {
		return err
	}
	var name [8]byte
	rand.Read(name[:]) // never fails
	is := &pb.Compare{Key: []byte(eraKey), Target: pb.Compare_VALUE, TargetUnion: &pb.Compare_Value{Value: []byte(e.era)}}
	if e.era == "" {
		is = compare(&core.Cond{Key: eraKey, Kind: core.CreateIs})
	}
	t := &pb.TxnRequest{Compare: []*pb.Compare{is}, Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
		RequestPut: &pb.PutRequest{Key: []byte(eraKey), Value: []byte(hex.EncodeToString(name[:]))},
	}}}}
	for _, prefix := range core.Prefixes() {
		t.Success = append(t.Success, &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{
			RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(OwnPrefix + prefix), RangeEnd: behind(OwnPrefix + prefix)},
		}})
	}
	answer, err := pb.NewKVClient(e.o.Etcd).Txn(ctx, t)
	if err != nil || !answer.Succeeded {
		return err
	}
	var keys []string
	for _, kv := range directory.Kvs {
		keys = append(keys, strings.TrimPrefix(string(kv.Key), OwnPrefix+core.DirectoryPrefix))
	}
	e.store.Discard(ctx, keys)
	return nil
}

// withdraw ends the cache for good.
func (e *Engine) withdraw(why error) {
	e.until.Store(0)
	e.withdrawn.Do(func() {
		e.why, e.since = why, time.Now()
		e.o.Log.Error("this gateway caches nothing any more", "reason", why)
		close(e.gone)
		e.stop()
	})
}

// Gone is closed when the cache has ended for good. [Engine.Why] says why.
func (e *Engine) Gone() <-chan struct{} { return e.gone }

// Why is the reason for which the cache has ended; valid after Gone.
func (e *Engine) Why() error { return e.why }

// Bypassed reports whether calls go to etcd alone, because the cache has ended. Before that it waits until no other gateway answers from
// the chain: each notices the same before it extends its session.
func (e *Engine) Bypassed(ctx context.Context) (bool, error) {
	select {
	case <-e.gone:
	default:
		return false, nil
	}
	timer := time.NewTimer(time.Until(e.since.Add(e.o.Lease)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return true, status.FromContextError(ctx.Err()).Err()
	}
}

// identity names the etcd cluster that a gateway caches, and the chain that has the objects.
type identity struct {
	cluster uint64 // etcd's number
	era     string // of its history
	chain   string // name of the chain of all its gateways, with the format of the directory
}

// ErrNoChain says that the name of the chain is needed: no gateway has used this etcd before.
var ErrNoChain = errors.New("the chain cannot be reached, and no gateway has used this etcd before")

// identify checks that all gateways of an etcd have the same chain. Without a name it takes the one that another gateway
// has written.
func identify(ctx context.Context, conn *grpc.ClientConn, chain string) (etcd identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*ownWithin)
	defer cancel()
	key, value := []byte(OwnPrefix+"chain"), chainValue(chain)
	get, getEra := read(&pb.RangeRequest{Key: key}), read(&pb.RangeRequest{Key: []byte(eraKey)})
	put := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: key, Value: []byte(value)}}}
	t := &pb.TxnRequest{
		Compare: []*pb.Compare{compare(&core.Cond{Key: string(key), Kind: core.CreateIs})},
		Success: []*pb.RequestOp{getEra, get}, Failure: []*pb.RequestOp{getEra, get},
	}
	if chain != "" {
		t.Success = append([]*pb.RequestOp{put}, t.Success...)
	}
	var answer *pb.TxnResponse
	for pauses := retry.Between(tick, time.Second); ; {
		answer, err = pb.NewKVClient(conn).Txn(ctx, t, grpc.WaitForReady(true))
		if status.Code(err) != codes.Unavailable || !pauses.Wait(ctx) { // else etcd may be changing its leader
			break
		}
	}
	switch {
	case unauthorized(err):
		return etcd, ErrAuth
	case err != nil:
		return etcd, fmt.Errorf("etcd does not take the gateway's own keys below %s: %w", OwnPrefix, err)
	}
	last := len(answer.Responses) - 1
	for _, kv := range answer.Responses[last-1].GetResponseRange().GetKvs() {
		etcd.era = string(kv.Value)
	}
	for _, kv := range answer.Responses[last].GetResponseRange().GetKvs() {
		etcd.chain = string(kv.Value)
	}
	etcd.cluster = answer.Header.ClusterId
	switch {
	case chain == "" && etcd.chain == "":
		return etcd, ErrNoChain
	case chain == "" && strings.HasPrefix(etcd.chain, chainValue("")):
		return etcd, nil
	}
	return etcd, etcd.sameChain(value)
}

// chainValue is how the name of a chain is written in etcd.
func chainValue(name string) string { return directoryFormat + " " + name }

// sameChain refuses another chain than the one of etcd's other gateways.
func (i *identity) sameChain(value string) error {
	if i.chain == value {
		return nil
	}
	return fmt.Errorf("gateways of another chain, or another release, use this etcd: its key %s is %q, this gateway's "+
		"is %q. End those gateways and delete the keys below %s, or use the same chain",
		OwnPrefix+"chain", i.chain, value, OwnPrefix)
}

// NameChain checks the name of a chain that became known only after the start. The gateway must not use the chain if it
// returns an error.
func (e *Engine) NameChain(name string) error { return e.sameChain(chainValue(name)) }
