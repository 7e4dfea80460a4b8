package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/internal/platform/callerror"
)

const (
	connectWithin = 500 * time.Millisecond
	retryAfter    = 20 * time.Millisecond
	retryAtLeast  = time.Second           // however often it failed
	stagger       = 10 * time.Millisecond // from asking one source to asking another as well
	// in doubt: that long a source may have no news before the map counts as the newest
	seekFor    = time.Second
	doubtEvery = 200 * time.Millisecond // at most
	askedNodes = 3                      // besides all controllers
	// A source may have no news for long. One that is silent for silentAfter is asked whether it is still there, and given
	// up if it does not answer within silenceWithin. gRPC asks no more often.
	silentAfter   = 10 * time.Second
	silenceWithin = 3 * time.Second
)

// run keeps a source until Close.
func (f *Follower) run(source string) {
	for failures := 0; f.ctx.Err() == nil; {
		next, failed := f.listenInDoubt(source)
		if !failed {
			source, failures = next, 0
			continue
		}
		pause(f.ctx, rand.N(min(retryAfter<<min(failures, 10), retryAtLeast)))
		others := f.addresses(source)
		source = others[rand.IntN(len(others))]
		failures++
	}
}

// listenInDoubt takes maps from one source until it fails or another one has a newer map, which is the next source
// then.
func (f *Follower) listenInDoubt(source string) (next string, failed bool) {
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() {
		defer close(ended)
		_ = f.listen(ctx, source, func(bool) {}) // kept among the failures
	})
	defer listening.Wait()
	defer cancel()
	for {
		select {
		case <-ended:
			return "", true
		case <-f.doubt:
			began := time.Now()
			seeking, done := context.WithTimeout(ctx, seekFor)
			next, ok := f.seek(seeking, f.addresses(source))
			done()
			if ok {
				return next, false
			}
			pause(ctx, doubtEvery-time.Since(began))
		}
	}
}

// seek asks sources, one after the other without waiting for the first, until the newest map is a newer one than
// before. It returns the source that had it, or, if that came from elsewhere, the first one.
func (f *Follower) seek(ctx context.Context, sources []string) (string, bool) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan string, 1)
	unwatch := context.AfterFunc(f.ctx, cancel)
	defer unwatch()
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	left := make(chan struct{}, len(sources))
	for i, source := range sources {
		group.Go(func() {
			defer func() { left <- struct{}{} }()
			if !pause(ctx, time.Duration(i)*stagger) {
				return
			}
			_ = f.listen(ctx, source, func(news bool) { // kept among the failures
				if news {
					select {
					case found <- source:
					default:
					}
				}
			})
		})
	}
	for range sources {
		select {
		case source := <-found:
			return source, true
		case <-left:
		}
	}
	select {
	case source := <-found:
		return source, true
	default:
		return "", false
	}
}

// addresses are where the map is to be had, in the order to ask: other sources than the given one, controllers before
// nodes; and that one only if there is no other. Clients don't all ask the same one first.
func (f *Follower) addresses(except string) []string {
	m := f.Map()
	first := slices.Clone(f.options.Addrs)
	var nodes []string
	if m != nil {
		first = append(slices.Clone(m.Controllers), first...)
		for _, i := range rand.Perm(len(m.Nodes))[:min(askedNodes, len(m.Nodes))] {
			nodes = append(nodes, m.Nodes[i].APIAddr())
		}
	}
	slices.Sort(first)
	first = slices.Compact(first)
	rand.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	all := slices.DeleteFunc(append(first, nodes...), func(addr string) bool { return addr == except })
	if len(all) == 0 {
		all = []string{except}
	}
	return all
}

// refused reports whether every source has given a reason that time does not change.
func (f *Follower) refused() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, addr := range f.options.Addrs {
		err := f.failures[addr]
		switch status.Code(err) {
		case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		default:
			if !errors.Is(err, errOtherCluster) && !callerror.BadCertificate(err) {
				return false
			}
		}
	}
	return true
}

// firstError says why there is no map.
func (f *Follower) firstError(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var reasons []string
	for _, addr := range f.options.Addrs {
		reason := "no answer"
		if err := f.failures[addr]; err != nil {
			reason = callerror.Text(err)
		}
		reasons = append(reasons, addr+": "+reason)
	}
	switch cause := ctx.Err(); {
	case cause == nil:
		return fmt.Errorf("no map of the cluster from any controller or node (%s)", strings.Join(reasons, "; "))
	case errors.Is(cause, context.DeadlineExceeded):
		return &unansweredError{strings.Join(reasons, "; "), cause}
	default:
		return cause
	}
}

// unansweredError says why there was no map in time.
type unansweredError struct {
	reasons string
	late    error
}

func (e *unansweredError) Error() string {
	return "no map of the cluster from any controller or node in time (" + e.reasons + ")"
}

func (e *unansweredError) Unwrap() error { return e.late }

// pause waits and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
