package proxy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/platform/build"
	"github.com/netcraq/netcraq/internal/platform/callerror"
	"github.com/netcraq/netcraq/internal/platform/retry"
)

// about describes this gateway to operators.
func (o *Options) about() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s, --listen %s, process %d%s%s", host, o.Listen, os.Getpid(), aboutVersion, build.Name())
}

// aboutVersion stands before the version in what a gateway says about itself.
const aboutVersion = ", version "

// CheckEndpoints returns an error if etcd's endpoints are no addresses.
func (o *Options) CheckEndpoints() error {
	_, err := parseEndpoints(o.Endpoints)
	return err
}

// operate does something with the gateways' own keys at the etcd that options name.
func (o *Options) operate(do func(*upstream) error) error {
	endpoints, err := parseEndpoints(o.Endpoints)
	if err != nil {
		return err
	}
	secure, err := o.Etcd.Config()
	if err != nil {
		return err
	}
	conn, err := dial(endpoints, secure, o.KeepAlive, readyWithin)
	if err != nil {
		return fmt.Errorf("connections to etcd: %w", err)
	}
	err = do(conn)
	return errors.Join(explain(o.Endpoints, err), conn.Close())
}

// explain says of which etcd a call has failed.
func explain(endpoints []string, err error) error {
	at := strings.Join(endpoints, ", ")
	switch s, is := status.FromError(err); {
	case err == nil || !is && !errors.Is(err, context.DeadlineExceeded):
		return err
	case !is || s.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("etcd at %s does not answer: is it running, and are its scheme and certificates right? "+
			"--etcd-endpoints names another", at)
	}
	return fmt.Errorf("etcd at %s: %s", at, callerror.Text(err))
}

// ErrRunning says that gateways use etcd.
var ErrRunning = errors.New("gateways run: stop them first; nothing was deleted")

// Clean deletes all keys of the gateways in etcd, if no gateway runs that caches. It returns their number.
func (o *Options) Clean(ctx context.Context) (deleted int64, err error) {
	err = o.operate(func(etcd *upstream) (err error) {
		var running []string
		deleted, running, err = engine.Clean(ctx, etcd.ClientConn)
		if err == nil && len(running) > 0 {
			err = fmt.Errorf("%w: %s. A gateway that was killed counts for up to %v", ErrRunning, strings.Join(running, "; "),
				engine.DefaultLease)
		}
		return err
	})
	return deleted, err
}

// Allowed is what became of keys that were not cached since a write reached etcd past the gateways.
type Allowed struct {
	Keys    []string `json:"allowed"`
	Waiting []string `json:"waiting,omitempty"` // the gateways have not taken them out of the chain yet
	Unsure  bool     `json:"unsure,omitempty"`  // a client of etcd deleted what says that they have
}

// allowAgain is how often keys are tried that the gateways have to take out of the chain before.
const allowAgain = 200 * time.Millisecond

// Allow has the gateways cache the keys with a prefix again that they left out since a write reached etcd past them. It
// waits, until ctx ends, for gateways that have not taken the keys out of the chain yet.
func (o *Options) Allow(ctx context.Context, prefix string) (a Allowed, err error) {
	err = o.operate(func(etcd *upstream) error {
		if a.Waiting, err = engine.Excluded(ctx, etcd.ClientConn, prefix); err != nil {
			return err
		}
		for len(a.Waiting) > 0 {
			done, err := engine.Allow(ctx, etcd.ClientConn, a.Waiting)
			a.Keys = append(a.Keys, done.Allowed...)
			a.Waiting = slices.DeleteFunc(a.Waiting, func(key string) bool { return slices.Contains(done.Allowed, key) })
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			if a.Unsure = done.Unsure; len(a.Waiting) > 0 && !retry.Sleep(ctx, allowAgain) {
				return nil
			}
		}
		return nil
	})
	return a, err
}
