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

	"github.com/netcraq/netcraq/internal/gateway/core"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// What authentication at etcd means for the cache, [core.Authentication] decides.

const (
	// askAgain is how often a gateway whose cache ended asks whether etcd answers everybody.
	askAgain = 300 * time.Millisecond
	// stillRefused is how long a refusal counts.
	stillRefused = time.Second
	// unguardedWithin bounds a write without the guard: what etcd has not executed by then is given up.
	unguardedWithin = 2 * time.Second
	// quiet is longer than stillRefused and unguardedWithin. Writes wait meanwhile if keys are placed.
	quiet = 4 * time.Second
)

func newAuthentication(lease time.Duration) *core.Authentication {
	return core.NewAuthentication(core.AuthOptions{Lease: int64(lease), Counts: int64(stillRefused), Quiet: int64(quiet)})
}

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

// awaitOpen waits, after the end of the cache, until etcd answers everybody again.
func (e *Engine) awaitOpen() {
	for {
		retry.Sleep(e.ended, askAgain)
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
			e.mu.Lock()
			e.auth.Refused(bootTime(), asked)
			e.mu.Unlock()
		}
	}
}

// Again is closed when the cache has ended for a reason that is over, so that the gateway is to begin anew.
func (e *Engine) Again() <-chan struct{} { return e.open }

// mayBegin returns nil if the first session may begin under the authentication of etcd.
func (e *Engine) mayBegin(ctx context.Context) error {
	auth, err := authentication(ctx, e.o.Etcd)
	if err != nil {
		return err
	}
	kv := pb.NewKVClient(e.o.Etcd)
	noted, err := kv.Range(ctx, &pb.RangeRequest{Key: []byte(authKey)})
	switch {
	case unauthorized(err):
		return ErrAuth
	case err != nil:
		return err
	}
	var revision uint64
	for _, note := range noted.Kvs {
		revision, _ = strconv.ParseUint(string(note.Value), 10, 64) // else it is none that etcd has
	}
	e.mu.Lock()
	verdict := e.auth.Begin(bootTime(), auth.Enabled, auth.AuthRevision, revision)
	e.mu.Unlock()
	switch verdict {
	case core.Over:
		return ErrAuth
	case core.Undecided:
		return errQuiet
	case core.Note:
		text := strconv.FormatUint(auth.AuthRevision, 10)
		if _, err := kv.Put(ctx, &pb.PutRequest{Key: []byte(authKey), Value: []byte(text)}); err != nil {
			return fmt.Errorf("etcd does not take the gateway's own keys below %s: %w", OwnPrefix, err)
		}
	}
	return nil
}

// mayGoOn returns nil if the session may count as extended under the authentication of etcd.
func (e *Engine) mayGoOn(ctx context.Context) error {
	auth, err := authentication(ctx, e.o.Etcd)
	if err != nil {
		return err
	}
	e.mu.Lock()
	verdict := e.auth.Prove(bootTime(), auth.Enabled, auth.AuthRevision)
	e.mu.Unlock()
	switch verdict {
	case core.Go:
		return nil
	case core.Over:
		return ErrAuth
	case core.Renew:
		go e.renew(e.ctx)
	}
	return errQuiet
}
