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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/core"
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
// that the chain's objects come from: etcd's revision is read after the chain's, which is not above it then. It calls
// same, unless that is nil, if the history is the same.
func (e *Engine) prove(ctx context.Context, same func(*core.Seen)) error {
	ctx, cancel := context.WithTimeout(ctx, ownWithin)
	defer cancel()
	floor := e.newest.Load()
	chain := e.store.Revision(ctx)
	answer, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{Key: []byte(timelineKey)})
	switch {
	case unauthorized(err):
		return ErrAuth
	case err != nil:
		return err
	}
	timeline, header := valueIn(answer), answer.Header
	history := core.History{Cluster: e.cluster, Timeline: e.timeline}
	seen := core.Seen{Floor: floor, Chain: chain, Cluster: header.ClusterId, Timeline: timeline, Rev: header.Revision}
	switch history.Compare(&seen) {
	case core.OtherCluster:
		return fmt.Errorf("%w: its cluster was %x, and is %x", ErrRestored, e.cluster, header.ClusterId)
	case core.OtherTimeline:
		if timeline == "" {
			return fmt.Errorf("%w, or a client deleted its key %s: its timeline was %q", ErrRestored, timelineKey,
				e.timeline)
		}
		return fmt.Errorf("%w: its timeline was %q, and is %q", ErrRestored, e.timeline, timeline)
	case core.Older:
		err := fmt.Errorf("%w: its revision was %d, and is %d", ErrRestored, max(floor, chain.Rev), header.Revision)
		return errors.Join(err, e.newTimeline(ctx))
	}
	if same != nil {
		same(&seen)
	}
	e.Saw(header)
	return e.mayGoOn(ctx)
}

// timelineKey has the name of etcd's history since a restored backup.
const timelineKey = OwnPrefix + core.TimelineName

// valueIn returns the value in the answer to a read of one key; empty: it is absent.
func valueIn(answer *pb.RangeResponse) (value string) {
	for _, kv := range answer.GetKvs() {
		value = string(kv.Value)
	}
	return value
}

// newTimeline names another timeline, and removes the objects of the one before. The directory is of that one, so
// gateways of the new timeline wait until all sessions of the old one have ended, also if etcd executes this late. It
// goes on when ctx is cancelled, as the session may end meanwhile.
func (e *Engine) newTimeline(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ownWithin)
	defer cancel()
	directory, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{
		Key: []byte(OwnPrefix + core.DirectoryPrefix), RangeEnd: behind(OwnPrefix + core.DirectoryPrefix), KeysOnly: true,
	})
	if err != nil {
		return err
	}
	var name [8]byte
	rand.Read(name[:]) // never fails
	is := core.TimelineIs(timelineKey, e.timeline)
	put := &pb.PutRequest{Key: []byte(timelineKey), Value: []byte(hex.EncodeToString(name[:]))}
	t := &pb.TxnRequest{Compare: []*pb.Compare{compare(&is)}, Success: []*pb.RequestOp{
		{Request: &pb.RequestOp_RequestPut{RequestPut: put}},
	}}
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

// withdraw ends the cache for good. asked is when the request was sent whose answer is the reason.
func (e *Engine) withdraw(why error, asked int64) {
	e.withdrawn.Do(func() {
		e.why = why
		e.mu.Lock()
		e.auth.End(bootTime(), asked, e.core.Free())
		e.until.Store(0)
		close(e.gone)
		e.stop()
		e.mu.Unlock()
		if errors.Is(why, ErrAuth) {
			go e.awaitOpen()
		}
		e.o.Log.Error("this gateway caches nothing any more", "reason", why)
	})
}

// Gone is closed when the cache has ended for good. [Engine.Why] says why.
func (e *Engine) Gone() <-chan struct{} { return e.gone }

// Why is the reason for which the cache has ended; valid after Gone.
func (e *Engine) Why() error { return e.why }

// Bypassed reports whether calls go to etcd alone, because the cache has ended: [core.Authentication.Passes]. It waits until they may.
// An answer to such a call may be shown when it returns without an error again. Nothing passes once etcd was restored:
// the gateway begins anew.
func (e *Engine) Bypassed(ctx context.Context) (bool, error) {
	select {
	case <-e.gone:
	default:
		return false, nil
	}
	if !errors.Is(e.why, ErrAuth) {
		return true, errClosed
	}
	for {
		e.mu.Lock()
		yes, again := e.auth.Passes(bootTime())
		e.mu.Unlock()
		if yes {
			return true, nil
		}
		timer := time.NewTimer(time.Duration(again))
		select {
		case <-timer.C:
		case <-e.open:
			timer.Stop()
			return true, errAgain
		case <-ctx.Done():
			timer.Stop()
			return true, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// Unguarded waits until a write may pass by the cache, which has ended, and bounds it: etcd must not execute it when gateways
// cache again.
func (e *Engine) Unguarded(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if _, err := e.Bypassed(ctx); err != nil {
		return nil, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, unguardedWithin)
	if _, err := e.Bypassed(bounded); err != nil { // it passes still, and less than the bound ago
		cancel()
		return nil, nil, err
	}
	return bounded, cancel, nil
}
