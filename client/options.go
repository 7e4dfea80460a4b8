package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"
)

// Defaults of [Options].
const (
	DefaultAttempt = 50 * time.Millisecond
	DefaultTimeout = time.Second
	DefaultWindow  = 256 // as many answers as a socket's buffer holds by Linux's default
)

// Options configure a [Client]. One of Cluster and Follow is needed; the zero value of every other field is its
// default.
type Options struct {
	// Cluster is a cluster that does not change. A node that is of another epoch ends an operation with a NotMineError,
	// but a write goes on if the node's epoch is the older one.
	Cluster *Cluster
	// Follow knows the map of a cluster that changes; package client/follow has one. Closing the client does not end it.
	Follow Follower
	// Attempt is the longest that an attempt waits for its answer before the operation is tried again. It waits less
	// where answers are known to come sooner.
	Attempt time.Duration
	// Timeout bounds an operation whose context has no deadline. A write ends after a minute in any case, because nodes
	// remember a session no longer than they need to.
	Timeout time.Duration
	// ReadFrom chooses the node that a read asks first. The default is Nearest.
	ReadFrom ReadFrom
	// Window is the most operations that share a socket and are under way at once, 1 to 32768: those of Do and Start,
	// and of callers when there are more than CPUs.
	Window int
	// Local is the address to send from; unset: the kernel chooses.
	Local netip.Addr
	// Observe is called when an operation begins, before its first attempt, with the caller's context. The function that it
	// returns, if not nil, is called once when the operation has ended. Neither may block: for operations of Do and Start
	// the latter runs on a goroutine that serves all operations. Package client/telemetry makes spans and metrics of them.
	Observe Observer

	least time.Duration // that an attempt waits where answers come soon; 0: minAttempt
}

// Observer is told of operations; see [Options]. The operation must not be changed.
type Observer func(ctx context.Context, op *Op) (ended func(Result, error))

// maxWindow keeps the number of an operation's slot in 16 bits of its request ids.
const maxWindow = 1 << 15

func (o *Options) complete() error {
	if o.Attempt == 0 {
		o.Attempt = DefaultAttempt
	}
	if o.least == 0 {
		o.least = minAttempt
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	switch {
	case (o.Cluster == nil) == (o.Follow == nil):
		return errors.New("give either a cluster or a follower of one")
	case o.Attempt < 0:
		return fmt.Errorf("the time of an attempt must be positive, not %v", o.Attempt)
	case o.Timeout < 0:
		return fmt.Errorf("the timeout must be positive, not %v", o.Timeout)
	case o.Window < 1 || o.Window > maxWindow:
		return fmt.Errorf("the window is 1 to %d operations, not %d", maxWindow, o.Window)
	case o.Local.IsValid() && !o.Local.Is4():
		return fmt.Errorf("the local address %v is not IPv4", o.Local)
	}
	return nil
}

// firstMap is the map to begin with.
func (o *Options) firstMap() (*Map, error) {
	if o.Follow != nil {
		return o.Follow.Map(), nil
	}
	if o.Cluster.Managed() {
		return nil, errors.New("the cluster file names controllers: follow them, with package client/follow")
	}
	m, err := o.Cluster.Map()
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return m, nil
}

// ReadFrom says which node of a chain a read asks first. If that node does not answer, others are asked, except
// for [Named].
type ReadFrom struct {
	policy policy
	name   string
}

type policy uint8

const (
	nearest policy = iota
	spread
	tail
	named
)

var (
	// Nearest asks the node that has answered fastest, and now and then another, to notice a change.
	Nearest = ReadFrom{}
	// Spread asks a random node, so that all nodes share the load.
	Spread = ReadFrom{policy: spread}
	// Tail asks the tail.
	Tail = ReadFrom{policy: tail}
)

// Named asks the node of that name and no other.
func Named(node string) ReadFrom { return ReadFrom{policy: named, name: node} }

// String names the choice.
func (f ReadFrom) String() string {
	return [...]string{"nearest", "spread", "tail", "node " + f.name}[f.policy]
}

// ReadOption changes one read.
type ReadOption struct {
	from     ReadFrom
	set      setting
	bound    uint16 // milliseconds
	tooLarge bool
}

type setting uint8

const (
	setFrom setting = iota
	setAny
	setBounded
)

// From overrides [Options].ReadFrom for one read.
func From(f ReadFrom) ReadOption { return ReadOption{set: setFrom, from: f} }

// Any makes a read relaxed: it returns the newest version that the asked node knows, even one not yet committed, and
// even while the node may be out of touch with the chain. The same client may read an older version afterwards.
func Any() ReadOption { return ReadOption{set: setAny} }

// Bounded is [Any] at a node whose lease ran out less than d ago; a linearizable read elsewhere. d is rounded up to a
// whole millisecond; the longest is 65.535 s.
func Bounded(d time.Duration) ReadOption {
	ms := (d + time.Millisecond - 1) / time.Millisecond
	if d < 0 || ms > math.MaxUint16 {
		return ReadOption{set: setBounded, tooLarge: true}
	}
	return ReadOption{set: setBounded, bound: uint16(ms)}
}
