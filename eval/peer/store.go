package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names of the systems.
const (
	NetCRAQ   = "netcraq"
	Etcd      = "etcd"
	ZooKeeper = "zookeeper"
	Redis     = "redis"
	Memcached = "memcached"
)

// Names lists the systems in display order.
func Names() []string { return []string{NetCRAQ, Etcd, ZooKeeper, Redis, Memcached} }

// Version is compared by [Store.CompareAndSwap]; 0 means that the key has no value.
type Version uint64

// Errors of stores, to compare with errors.Is.
var (
	ErrNotFound = errors.New("the key has no value")
	ErrLocked   = errors.New("the lock is taken")
	// ErrUnknown: answers were lost and the repeated write was refused, perhaps because the first
	// attempt succeeded.
	ErrUnknown = errors.New("the outcome is unknown: answers were lost")
)

// Store is a running system with a client. Its methods are safe for concurrent use, except SetLoss
// and Close. Reads and writes are linearizable where the system supports it; Settings lists the
// exceptions.
type Store interface {
	Name() string
	// Settings describes the system's setup, to be printed with its figures.
	Settings() []string

	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
	// CompareAndSwap stores a value iff the key has the given version. It returns the key's version
	// afterwards in any case, so that a caller without a version can start with any.
	CompareAndSwap(ctx context.Context, key string, version Version, value []byte) (now Version, swapped bool, err error)
	// Lock acquires a lock or returns ErrLocked if it is held. A lock expires some time after its
	// holder ends.
	Lock(ctx context.Context, name string) (Lock, error)

	// SetLoss sets the loss of every link in percent, in both directions. The store must be opened
	// with Options.Lossy.
	SetLoss(percent float64) error
	// Close stops the system and removes its files, processes and network.
	Close() error
}

// Lock is a held lock.
type Lock interface {
	// Unlock releases the lock only if it still belongs to this holder.
	Unlock(ctx context.Context) error
}

// Many is a store whose client sends many requests without waiting for answers in between.
type Many interface {
	// GetMany reads keys, in no order, and calls got for each.
	GetMany(ctx context.Context, keys []string, got func(i int, value []byte, err error))
	// PutMany stores a value under keys, in no order, and calls done for each.
	PutMany(ctx context.Context, keys []string, value []byte, done func(i int, err error))
}

// Options configure a system.
type Options struct {
	Members int  // members of a replicated system; 0: 3
	Lossy   bool // links can lose packets, see [Store.SetLoss], and every packet costs a little more
	// Stale skips the steps that make reads linearizable: etcd answers serializable reads,
	// ZooKeeper does not sync first. The other systems ignore it.
	Stale bool
	// Connections is the number of connections for client libraries that share them; 0: the best
	// number measured here.
	Connections int
	Progress    func(step string) // receives the current step; may be nil
}

const defaultMembers = 3

// Check reports invalid options.
func (o *Options) Check() error {
	completed := *o
	return completed.complete()
}

func (o *Options) complete() error {
	if o.Members == 0 {
		o.Members = defaultMembers
	}
	if o.Members < 1 || o.Members > 8 {
		return fmt.Errorf("members: 1 to 8, not %d", o.Members)
	}
	if o.Connections < 0 {
		return fmt.Errorf("connections: 0 or more, not %d", o.Connections)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}

// MissingError reports that a system is not installed.
type MissingError struct {
	System string
	What   string // the missing part
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed (%s): run `scripts/peers.sh %s`, on Debian as root",
		e.System, e.What, e.System)
}

// openers start the systems in a network.
var openers = map[string]func(context.Context, *network, *Options) (Store, error){
	NetCRAQ:   openNetCRAQ,
	Etcd:      openEtcd,
	ZooKeeper: openZooKeeper,
	Redis:     openRedis,
	Memcached: openMemcached,
	NetChain:  openNetChain,
}

// members returns the number of hosts that a system needs.
func (o *Options) members(name string) int {
	if name == Redis || name == Memcached {
		return 1
	}
	return o.Members
}

// Open starts a system and a client. It needs root. It returns a [MissingError] if the system is
// not installed.
func Open(ctx context.Context, name string, o Options) (Store, error) {
	open, ok := openers[name]
	if !ok {
		return nil, fmt.Errorf("no system %q: want one of %s", name, strings.Join(Names(), ", "))
	}
	if err := errors.Join(o.complete(), installed(name)); err != nil {
		return nil, err
	}
	n, err := newNetwork(ctx, name, &o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := open(ctx, n, &o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Join(err, n.Close()))
	}
	return s, nil
}

// Known reports whether a system has the name.
func Known(name string) bool { return slices.Contains(Names(), name) }
