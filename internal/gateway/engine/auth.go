package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// While etcd has authentication enabled, gateways pass writes on without the guard: users may not read the session. So none may
// cache until these writes have ended:
//
//   - A gateway passes them only while it has seen, within stillRefused, that etcd refuses requests without a token.
//   - A gateway compares etcd's authentication revision, which changes when authentication is disabled, before its session
//     counts as extended. If it changed, the session does not, so that no read is answered from the chain. When quiet has
//     passed the gateway begins another session, which reads no object from before it.
//   - A gateway that starts has no session under a new authentication revision until quiet has passed. It notes that in
//     etcd, for those that start later.

const (
	// askAgain is how often a gateway whose cache ended asks whether etcd answers everybody.
	askAgain = 300 * time.Millisecond
	// stillRefused is how long a refusal counts.
	stillRefused = time.Second
	// quiet is longer than a refusal counts and a write without the guard takes. Writes wait meanwhile if keys are placed.
	quiet = 4 * time.Second
)

// authKey has the authentication revision of etcd under which gateways cache.
const authKey = OwnPrefix + "auth"

var (
	errAgain = status.Error(codes.Unavailable, "gateway: etcd's authentication was disabled; the gateway begins anew")
	errQuiet = errors.New("etcd's users, roles or authentication were changed: nothing is cached for some seconds")
)

// authentication asks whether etcd has authentication enabled.
func authentication(ctx context.Context, conn grpc.ClientConnInterface) (*pb.AuthStatusResponse, error) {
	answer, err := pb.NewAuthClient(conn).AuthStatus(ctx, new(pb.AuthStatusRequest))
	if unauthorized(err) {
		return nil, ErrAuth
	}
	return answer, err
}

// changedTo notes an authentication revision, and reports whether quiet has passed since it was seen first.
func (e *Engine) changedTo(revision uint64) (over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.quiet.revision != revision {
		e.quiet.revision, e.quiet.since = revision, bootTime()
		return false
	}
	return bootTime()-e.quiet.since >= int64(quiet)
}

// authenticatedUnder returns the authentication revision under which the gateway caches.
func (e *Engine) authenticatedUnder() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.auth
}

// authChanged handles another authentication revision.
func (e *Engine) authChanged(revision uint64) error {
	if e.changedTo(revision) {
		e.mu.Lock()
		e.auth = revision
		e.mu.Unlock()
		go e.renew(e.ctx)
	}
	return errQuiet
}

// awaitOpen waits, after the end of the cache, until etcd answers everybody again.
func (e *Engine) awaitOpen() {
	for {
		pause(e.ended, askAgain)
		if e.ended.Err() != nil {
			return
		}
		asked := bootTime()
		ctx, cancel := context.WithTimeout(e.ended, identifyWithin)
		_, err := pb.NewKVClient(e.o.Etcd).Range(ctx, &pb.RangeRequest{Key: []byte(authKey)})
		cancel()
		switch {
		case err == nil:
			e.o.Log.Info("etcd has authentication disabled: the gateway begins to cache again")
			close(e.open)
			return
		case unauthorized(err):
			e.refused.Store(asked)
		}
	}
}

// Again is closed when the cache has ended for a reason that is over, so that the gateway is to begin anew.
func (e *Engine) Again() <-chan struct{} { return e.open }

// underAuth returns the authentication revision under which the gateway may cache, or an error while it may not.
func (e *Engine) underAuth(ctx context.Context) (uint64, error) {
	auth, err := authentication(ctx, e.o.Etcd)
	switch {
	case err != nil:
		return 0, err
	case auth.Enabled:
		return 0, ErrAuth
	case auth.AuthRevision <= neverChanged:
		return auth.AuthRevision, nil
	}
	kv := pb.NewKVClient(e.o.Etcd)
	text := strconv.FormatUint(auth.AuthRevision, 10)
	noted, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(authKey)})
	switch {
	case err != nil:
		return 0, err
	case len(noted.Kvs) == 1 && string(noted.Kvs[0].Value) == text:
		return auth.AuthRevision, nil
	case !e.changedTo(auth.AuthRevision):
		return 0, errQuiet
	}
	if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(authKey), Value: []byte(text)}); err != nil {
		return 0, fmt.Errorf("etcd does not take the gateway's own keys below %s: %w", OwnPrefix, err)
	}
	return auth.AuthRevision, nil
}

// neverChanged is the authentication revision of an etcd without users and roles.
const neverChanged = 1
