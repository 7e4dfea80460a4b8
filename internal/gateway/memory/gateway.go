package memory

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netcraq/netcraq/client"
	"github.com/netcraq/netcraq/internal/gateway/calltime"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/memory/chainlog"
	"github.com/netcraq/netcraq/internal/gateway/memory/keyspace"
	"github.com/netcraq/netcraq/internal/gateway/progress"
	"github.com/netcraq/netcraq/internal/gateway/serve"
	"github.com/netcraq/netcraq/internal/keyspace/driver"
)

const (
	// DefaultLockTTL is how long the active gateway must be silent before another one takes over.
	DefaultLockTTL = time.Second
	// DefaultHistory is how many revisions stay readable if no client compacts the keyspace.
	DefaultHistory = 100_000
	// DefaultQuotaBytes is etcd's default for --quota-backend-bytes.
	DefaultQuotaBytes = 2 << 30
	// DefaultName is the name of the keyspace.
	DefaultName = "default"
	// pollEvery is how often a gateway that is not active looks for new entries.
	pollEvery = 2 * time.Millisecond
	// retryEvery is the pause after an operation that the chain did not answer.
	retryEvery = 50 * time.Millisecond
	// unlockWithin bounds how long a gateway that ends tries to give the lock back.
	unlockWithin = time.Second
)

// Options configure a gateway.
type Options struct {
	Chain *client.Client
	// Name is the keyspace's name. Gateways with the same chain and name serve the same keyspace.
	Name string
	// Advertise is the address at which other gateways reach this one: host:port.
	Advertise string
	// Peers are the credentials towards other gateways. nil: no encryption.
	Peers credentials.TransportCredentials
	// LogEntries is the number of objects of the log of a new keyspace. 0: [chainlog.DefaultEntries].
	LogEntries int
	// FirstRevision is that of a new keyspace. 0: the time in microseconds, so that a keyspace that replaces a lost one
	// continues beyond the revisions that clients know.
	FirstRevision   int64
	LockTTL         time.Duration // 0: [DefaultLockTTL]
	History         int64         // 0: [DefaultHistory]
	QuotaBytes      int64         // of the keyspace with its history, in memory; 0: [DefaultQuotaBytes]
	MaxRequestBytes int           // 0: etcd's default
	// ProgressEvery is the time without events after which a watch gets its progress, of all gateways in the process.
	// 0: etcd's default.
	ProgressEvery time.Duration
	Log           *slog.Logger
	// Tokens says how users' tokens are made.
	Tokens keyspace.Tokens
	// CertificateNames makes the common name of a client's certificate its user, as etcd does with client certificates.
	CertificateNames bool
	// Secret is that by which the gateways of a keyspace on disks know each other. One in memory has its own.
	Secret []byte
	// Temporary is the directory of the files that snapshots for clients are sent from. Empty: that of the system.
	Temporary string

	// Disk completes the options and opens the data directory of a keyspace on disks, whose number is ID. nil: the
	// keyspace is in memory only.
	Disk func(o driver.Options, peers credentials.TransportCredentials) (*driver.Driver, error)
	ID   uint64
	// Begin writes the state with which the keyspace begins, if there is none yet. This gateway lets no lease expire. nil:
	// an empty keyspace.
	Begin func(io.Writer) error
	// Others is the service by which other gateways call the driver. nil: they are in this process.
	Others func(*driver.Driver) (*grpc.ServiceDesc, any)

	memory *grpcserver.Memory // of clients' requests and answers; nil: [serve.RequestMemory]
}

// Gateway is one gateway of a keyspace.
type Gateway struct {
	o    Options
	self *pb.Member
	log  *chainlog.Log  // nil: the keyspace was not found yet, or is on disks
	disk *driver.Driver // nil: the keyspace is in memory only
	m    *machine       // of disk

	began   time.Time
	ends    atomic.Uint64 // how often the log was read to its end
	contact atomic.Int64  // when the chain answered last, since began
	applied progress.Mark // the revision of this gateway's copy
	appends prometheus.Histogram
	latency *prometheus.HistogramVec
	times   calltime.Times // in latency
	calls   *calls

	mu      sync.Mutex
	space   *keyspace.Keyspace
	cluster uint64              // the keyspace's number; 0: its log was not read to the end yet
	secret  []byte              // by which the keyspace's gateways know each other; empty: none
	term    uint64              // the highest term that this gateway has seen
	leader  uint64              // the number of the gateway behind conn; 0: not known
	others  map[*pb.Member]bool // gateways that relay to this one
	lead    *leader             // nil: this gateway is not active
	holder  string              // the address of the active gateway, as far as known
	conn    *grpc.ClientConn    // to the active gateway; nil: none, or it is this one
	relay   *relay              // on conn
	changed chan struct{}       // closed when lead or holder changes
}

// New makes a gateway. [Gateway.Run] runs it.
func New(o Options) (*Gateway, error) {
	if o.LockTTL == 0 {
		o.LockTTL = DefaultLockTTL
	}
	if o.History == 0 {
		o.History = DefaultHistory
	}
	if o.QuotaBytes == 0 {
		o.QuotaBytes = DefaultQuotaBytes
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.LogEntries == 0 {
		o.LogEntries = chainlog.DefaultEntries
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = serve.DefaultMaxRequestBytes
	}
	if o.Peers == nil {
		o.Peers = insecure.NewCredentials()
	}
	if o.ProgressEvery != 0 {
		v3rpc.SetProgressReportInterval(o.ProgressEvery)
	}
	space, err := keyspace.New(1, o.Tokens) // until the log is found
	if err != nil {
		return nil, err
	}
	latency := newLatency()
	g := &Gateway{
		o: o, self: &pb.Member{ID: rand.Uint64() | 1}, others: make(map[*pb.Member]bool), began: time.Now(),
		secret: o.Secret, space: space, changed: make(chan struct{}), appends: newAppends(), calls: newCalls(),
		latency: latency, times: calltime.Of(latency),
	}
	if o.Disk != nil {
		if err := g.openDisk(); err != nil {
			return nil, errors.Join(err, space.Close())
		}
	}
	return g, nil
}

func (g *Gateway) firstRevision() int64 {
	if g.o.FirstRevision > 0 {
		return g.o.FirstRevision
	}
	return time.Now().UnixMicro() //nolint:forbidigo // a keyspace in memory that replaces a lost one has later revisions
}

// lockName is the name of the lock whose holder is the active gateway.
func (g *Gateway) lockName() string { return "memory/" + g.o.Name }

// Run follows the keyspace, and leads it whenever the chain gives this gateway the lock, until ctx ends. An error means
// that the keyspace is lost or cannot be made.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.close()
	if g.disk != nil {
		return g.runOnDisk(ctx)
	}
	elected, done := make(chan *client.Lock), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var electing sync.WaitGroup
	electing.Go(func() { g.elect(ctx, elected, done) })
	defer electing.Wait()
	defer cancel()
	for {
		lock, err := g.follow(ctx, elected)
		if err != nil || lock == nil {
			return err
		}
		err = g.leadWith(ctx, lock)
		g.release(lock)
		done <- struct{}{}
		switch {
		case ctx.Err() != nil:
			return nil
		case fatal(err):
			return err
		case err != nil:
			g.o.Log.Warn("this gateway is no longer active", "reason", err)
		}
	}
}

// fatal reports whether a gateway cannot continue after an error.
func fatal(err error) bool {
	return errors.Is(err, chainlog.ErrLost) || errors.Is(err, errCreate) || errors.Is(err, errDamaged)
}

var (
	errCreate  = errors.New("the keyspace cannot be made")
	errDamaged = errors.New("the keyspace cannot be read")
)

func (g *Gateway) release(lock *client.Lock) {
	ctx, cancel := context.WithTimeout(context.Background(), unlockWithin)
	defer cancel()
	if err := lock.Unlock(ctx); err != nil {
		g.o.Log.Debug("the lock was not given back", "error", err)
	}
}

func (g *Gateway) close() {
	g.mu.Lock()
	space := g.space
	g.disconnect()
	g.holder = ""
	g.mu.Unlock()
	if err := space.Close(); err != nil {
		g.o.Log.Debug("the gateway's end", "error", err)
	}
}

// elect waits for the lock, and records the address of its holder. After it has handed the lock over, it waits for
// done.
func (g *Gateway) elect(ctx context.Context, elected chan<- *client.Lock, done <-chan struct{}) {
	options := client.LockOptions{TTL: g.o.LockTTL, Note: g.o.Advertise}
	for ctx.Err() == nil {
		lock, err := g.o.Chain.TryLock(ctx, g.lockName(), options)
		var locked *client.LockedError
		switch {
		case err == nil:
			select {
			case elected <- lock:
				<-done
			case <-ctx.Done():
				g.release(lock)
			}
			continue
		case errors.As(err, &locked):
			g.follows(locked.Note)
		case ctx.Err() == nil:
			g.o.Log.Debug("the chain's lock", "error", err)
		}
		pause(ctx, nil, g.o.LockTTL/20)
	}
}

// pause waits, until ctx ends, or until stop receives.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-stop:
	case <-t.C:
	}
}

// known waits until this gateway has read the log to its end once. Before, its copy is older than anything that clients
// may have seen.
func (g *Gateway) known(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		g.mu.Lock()
		found, changed := g.cluster != 0, g.changed
		g.mu.Unlock()
		if found {
			return nil
		}
		pause(waiting, changed, requestTimeout)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if waiting.Err() != nil {
			return rpctypes.ErrGRPCNoLeader
		}
	}
}

// present is the keyspace as it is now, if this gateway has found it. done must be called after its last use.
func (g *Gateway) present() (space *keyspace.Keyspace, done func(), err error) {
	for {
		g.mu.Lock()
		space, found := g.space, g.cluster != 0
		g.mu.Unlock()
		if !found {
			return nil, nil, rpctypes.ErrGRPCStopped
		}
		if done, ok := space.Use(); ok {
			return space, done, nil
		}
		if g.current() == space { // not replaced
			return nil, nil, rpctypes.ErrGRPCStopped
		}
	}
}

func (g *Gateway) current() *keyspace.Keyspace {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.space
}
