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

// The stores. All but the last are the same etcd; objects are moved into a keyspace and back.
const (
	StoreEtcd    Store = "etcd"    // the API server uses etcd directly
	StoreGateway Store = "gateway" // it uses a gateway that caches nothing
	StoreChain   Store = "chain"   // the gateway answers reads from the chain of the manifests' nodes
	StoreMember  Store = "member"  // it uses etcd directly, whose members read through that chain
	// StoreKeyspace: it uses gateways of a keyspace on disks, whose log is in that chain. The chain's nodes are pods of
	// this cluster, so the cluster does not come back by itself when all machines end.
	StoreKeyspace Store = "keyspace"
)

// Stores are all stores.
var Stores = []Store{StoreEtcd, StoreGateway, StoreChain, StoreMember, StoreKeyspace}

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
	if want.Store != StoreEtcd && want.Store != StoreGateway && s.Options.Manifests == "" {
		return errNoChain
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errors.New("not in time"))
	defer cancel()
	if s.Keyspace > 0 && want.Store != StoreKeyspace {
		if err := s.leaveKeyspace(ctx); err != nil {
			return err
		}
	}
	direct := want.Store != StoreGateway && want.Store != StoreChain
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
	switch {
	case !s.Joined && want.Store == StoreChain:
		return s.change(ctx, gatewayProgram, func() { s.Joined = true })
	case s.Keyspace == 0 && want.Store == StoreKeyspace:
		return s.enterKeyspace(ctx)
	}
	return nil
}

// serving returns how the API server serves now.
func (s *state) serving() Serving {
	v := Serving{Store: StoreGateway, NoWatchCache: s.NoWatchCache}
	switch {
	case s.Keyspace > 0:
		v.Store = StoreKeyspace
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
	return s.awaitAPI(ctx)
}

// awaitAPI waits until the API server is ready.
func (s *state) awaitAPI(ctx context.Context) error {
	a, err := NewAPI(s.Options.Name)
	if err != nil {
		return err
	}
	defer a.Close()
	return s.await(ctx, func(ctx context.Context) error { return a.Get(ctx, "/readyz", nil) })
}

// startMissing has the control machine start what it lacks.
func (s *state) startMissing() error {
	if err := unix.Kill(s.Machines[Control].PID, unix.SIGHUP); err != nil {
		return fmt.Errorf("%s: %w", Control, err)
	}
	return nil
}
