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

// Names lists the systems in the order in which they are shown.
func Names() []string { return []string{NetCRAQ, Etcd, ZooKeeper, Redis, Memcached} }

// Version is what a system compares in [Store.CompareAndSwap]; 0 stands for a key without a value.
type Version uint64

// Errors of stores, to compare with errors.Is.
var (
	ErrNotFound = errors.New("the key has no value")
	ErrLocked   = errors.New("the lock is taken")
	// ErrUnknown: answers were lost, and a repeated write was refused, perhaps because of itself.
	ErrUnknown = errors.New("the outcome is unknown: answers were lost")
)

// Store is a running system and a client of it. Its methods may be called from several goroutines at once, but for SetLoss and
// Close. Reads and writes are linearizable as far as the system can do that; Settings say where it can't.
type Store interface {
	Name() string
	// Settings say how the system was set up, for whoever reads a figure.
	Settings() []string

	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, value []byte) error
	// CompareAndSwap stores a value iff the key's version is the one given. It returns the version that the key then has, whether it
	// swapped or not, so that a caller without a version may begin with any.
	CompareAndSwap(ctx context.Context, key string, version Version, value []byte) (now Version, swapped bool, err error)
	// Lock takes a lock if nobody holds it, else the error is ErrLocked. It ends by itself some time after its holder is gone.
	Lock(ctx context.Context, name string) (Lock, error)

	// SetLoss lets every link lose so many percent of its packets, in both directions; only for stores opened with Options.Lossy.
	SetLoss(percent float64) error
	// Close ends the system and removes all that belongs to it.
	Close() error
}

// Lock is a lock that is held.
type Lock interface {
	// Unlock gives the lock back, and only if it is still this holder's.
	Unlock(ctx context.Context) error
}

// Many is a store whose client sends many requests at once, without waiting for answers in between.
type Many interface {
	// GetMany reads keys, in no order, and calls got for each.
	GetMany(ctx context.Context, keys []string, got func(i int, value []byte, err error))
	// PutMany stores a value under keys, in no order, and calls done for each.
	PutMany(ctx context.Context, keys []string, value []byte, done func(i int, err error))
}

// Options say how a system is set up.
type Options struct {
	Members int  // of replicated systems; 0: 3
	Lossy   bool // links can lose packets, see [Store.SetLoss], and every packet costs a little more
	// Stale leaves out what makes reads linearizable: etcd answers serializable reads, ZooKeeper does not sync before. The others
	// know no difference.
	Stale bool
	// Connections of the client library, for systems whose clients share connections; 0: as many as served best here.
	Connections int
	Progress    func(step string) // told what is being done; may be nil
}

const defaultMembers = 3

// Check reports what can't be.
func (o *Options) Check() error {
	completed := *o
	return completed.complete()
}

func (o *Options) complete() error {
	if o.Members == 0 {
		o.Members = defaultMembers
	}
	if o.Members < 1 || o.Members > 8 {
		return fmt.Errorf("members: 1 to 8 are possible, not %d", o.Members)
	}
	if o.Connections < 0 {
		return fmt.Errorf("connections: 0 or more, not %d", o.Connections)
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return nil
}

// MissingError says that a system is not installed.
type MissingError struct {
	System string
	What   string // that was looked for
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed (%s): run `scripts/peers.sh %s`, on Debian as root", e.System, e.What, e.System)
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

// members is how many hosts a system wants.
func (o *Options) members(name string) int {
	if name == Redis || name == Memcached {
		return 1
	}
	return o.Members
}

// Open starts a system and a client of it. Only root can. A system that is not installed is a [MissingError].
func Open(ctx context.Context, name string, o Options) (Store, error) {
	open, ok := openers[name]
	if !ok {
		return nil, fmt.Errorf("there is no system %q: %s are known", name, strings.Join(Names(), ", "))
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

// Known reports whether there is a system of that name.
func Known(name string) bool { return slices.Contains(Names(), name) }
