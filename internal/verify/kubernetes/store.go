package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Store is the server that the API server uses as its etcd.
type Store string

// The stores. All of them are the same etcd, so nothing is migrated.
const (
	StoreEtcd    Store = "etcd"    // the API server uses etcd directly
	StoreGateway Store = "gateway" // it uses a gateway that caches nothing
	StoreChain   Store = "chain"   // the gateway answers reads from the chain of the manifests' nodes
	StoreMember  Store = "member"  // it uses etcd directly, whose members read through that chain
)

// Stores are all stores.
var Stores = []Store{StoreEtcd, StoreGateway, StoreChain, StoreMember}

// Serving is how the API server serves its objects.
type Serving struct {
	Store Store `json:"store"`
	// NoWatchCache lets the API server read its store where it would answer from memory, as it did before Kubernetes
	// had a watch cache.
	NoWatchCache bool `json:"no_watch_cache,omitempty"`
}

// Use restarts the API server of a cluster that is up, and its gateway, until they serve in the given way.
//
// A write that bypasses a gateway with a cache is an error. So the gateway has no cache before the API server leaves it,
// and gets one only after the API server is back.
func Use(ctx context.Context, name string, want Serving, progress func(string)) error {
	if !slices.Contains(Stores, want.Store) {
		return fmt.Errorf("store %q: want one of %v", want.Store, Stores)
	}
	s, err := readUp(name)
	if err != nil {
		return err
	}
	s.Options.Progress, s.started = progress, make(map[string]time.Time)
	return s.use(ctx, want)
}

// readUp reads the state of a cluster that must be up.
func readUp(name string) (*state, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	s, err := readState(name)
	if err == nil && !s.Up {
		return nil, fmt.Errorf("cluster %q %w", name, ErrNotUp)
	}
	return s, err
}

var errNoChain = errors.New("the cluster has no chain: it was brought up with --chain=false")

func (s *state) use(ctx context.Context, want Serving) error {
	if (want.Store == StoreChain || want.Store == StoreMember) && s.Options.Manifests == "" {
		return errNoChain
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("not in time"))
	defer cancel()
	direct := want.Store == StoreEtcd || want.Store == StoreMember
	if s.Joined && want.Store != StoreChain {
		if err := s.change(ctx, gatewayProgram, func() { s.Joined = false }); err != nil {
			return err
		}
	}
	if s.Direct != direct || s.NoWatchCache != want.NoWatchCache {
		if err := s.change(ctx, apiProgram, func() { s.Direct, s.NoWatchCache = direct, want.NoWatchCache }); err != nil {
			return err
		}
	}
	if members := want.Store == StoreMember; s.ChainMembers != members {
		if err := s.useMembers(ctx, members); err != nil {
			return err
		}
	}
	if !s.Joined && want.Store == StoreChain {
		return s.change(ctx, gatewayProgram, func() { s.Joined = true })
	}
	return nil
}

// serving returns how the API server serves now.
func (s *state) serving() Serving {
	v := Serving{Store: StoreGateway, NoWatchCache: s.NoWatchCache}
	switch {
	case s.Direct && s.ChainMembers:
		v.Store = StoreMember
	case s.Direct:
		v.Store = StoreEtcd
	case s.Joined:
		v.Store = StoreChain
	}
	return v
}

// change changes the state, and ends a program of the control machine, which starts it again by the new state. It
// returns when the API server is ready.
func (s *state) change(ctx context.Context, program string, edit func()) error {
	s.Options.Progress("starting " + program + " again")
	edit()
	if err := s.write(); err != nil {
		return err
	}
	control := s.Machines[Control].PID
	pid, ok := childrenOf(control)[program]
	if !ok {
		return fmt.Errorf("%s does not run; its log is in %s", program, filepath.Join(dirOf(s.Options.Name), Control))
	}
	end := unix.SIGTERM
	if program == apiProgram {
		end = unix.SIGKILL // after SIGTERM it waits a minute for its clients
	}
	if err := unix.Kill(pid, end); err != nil {
		return fmt.Errorf("end %s: %w", program, err)
	}
	err := s.await(ctx, func(context.Context) error {
		if now, ok := childrenOf(control)[program]; !ok || now == pid {
			return fmt.Errorf("%s is not back", program)
		}
		return nil
	})
	if err != nil {
		return err
	}
	a, err := NewAPI(s.Options.Name)
	if err != nil {
		return err
	}
	defer a.Close()
	return s.await(ctx, func(ctx context.Context) error { return a.Get(ctx, "/readyz", nil) })
}
