package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/netcraq/netcraq/api/controllerv1"
	"github.com/netcraq/netcraq/internal/cluster/security"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/wire"
)

// maxMapBytes holds the map of the largest cluster.
const maxMapBytes = 64 << 20

// Options say where to learn the map. Addrs is needed.
type Options struct {
	// Addrs are TCP addresses of controllers or of nodes' agents, with a port unless it is that of controllers. The rest
	// become known with the first map.
	Addrs []string
	// Cluster is the cluster's name; empty: that of the first map.
	Cluster string
	// Identity is the certificate to show; nil: connections are open.
	Identity *Identity
	// Dial adds options of connections.
	Dial []grpc.DialOption
}

// Follower keeps the newest map of a cluster. It is a client.Follower.
type Follower struct {
	options Options
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
	doubt   chan struct{} // asks run to look elsewhere

	newest  atomic.Pointer[topology.Map]
	keys    atomic.Pointer[wire.Keyring]
	telling sync.Mutex // held while watchers are told, so that they hear of maps in order

	mu       sync.Mutex
	watchers map[int]func(*topology.Map)
	nextID   int
	conns    map[string]*grpc.ClientConn
	failures map[string]error // of each address, its last
	closed   bool
	keyed    bool // keys are followed

	firstKeys chan struct{} // closed when the first keys are there
}

// Identity is a certificate and its role. LoadIdentity reads it.
type Identity = security.Identity

// LoadIdentity reads an identity from a directory that `netcraq certs make` has made; an empty name is no identity. A
// certificate that is replaced later, by one that is valid longer, is used for the next connection.
func LoadIdentity(dir string) (*Identity, error) { return security.Load(dir) }

// openWithin bounds Open where its context has no deadline.
const openWithin = 5 * time.Second

// Open returns when the first map is there. It fails at once where waiting is of no use: an address that is none, or
// sources that all refuse the caller or are of another cluster. Else it tries until ctx ends, or for five seconds if
// ctx has no deadline.
func Open(ctx context.Context, o Options) (*Follower, error) {
	if len(o.Addrs) == 0 {
		return nil, errors.New("follow: the address of a controller is needed")
	}
	addrs := make([]string, len(o.Addrs))
	for i, given := range o.Addrs {
		var err error
		if addrs[i], err = topology.ControllerAddr(given); err != nil {
			return nil, fmt.Errorf("follow: %w", err)
		}
	}
	o.Addrs = addrs
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openWithin)
		defer cancel()
	}
	f := &Follower{
		options: o, doubt: make(chan struct{}, 1), watchers: make(map[int]func(*topology.Map)),
		conns: make(map[string]*grpc.ClientConn), failures: make(map[string]error), firstKeys: make(chan struct{}),
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	for {
		source, ok := f.seek(ctx, f.addresses(""))
		if ok {
			f.running.Go(func() { f.run(source) })
			if err := f.awaitKeys(ctx); err != nil {
				return nil, errors.Join(fmt.Errorf("no keys from any controller: %w", err), f.Close())
			}
			return f, nil
		}
		if f.refused() || !pause(ctx, retryAfter) {
			err := f.firstError(ctx)
			f.Close()
			return nil, err
		}
	}
}

// Close ends the connections. Watchers are told nothing more.
func (f *Follower) Close() error {
	f.mu.Lock()
	f.closed = true
	clear(f.watchers)
	f.mu.Unlock()
	f.stop()
	f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		conn.Close() // nothing is under way
	}
	return nil
}

// Map is the newest map known.
func (f *Follower) Map() *topology.Map { return f.newest.Load() }

// Watch has changed called with the present map and every newer one, one after the other, until stop is called. A call
// that has begun may end after stop.
func (f *Follower) Watch(changed func(*topology.Map)) (stop func()) {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.mu.Lock()
	id := f.nextID
	f.nextID++
	f.watchers[id] = changed
	f.mu.Unlock()
	changed(f.Map())
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, id)
	}
}

// Stale says that the map of this version seems to be old. It does not wait.
func (f *Follower) Stale(version uint64) {
	if m := f.Map(); m != nil && m.Version > version {
		return
	}
	select {
	case f.doubt <- struct{}{}:
	default:
	}
}

// offer takes a map if it is the newest, and reports whether it is.
func (f *Follower) offer(m *topology.Map) (bool, error) {
	f.telling.Lock()
	defer f.telling.Unlock()
	if err := f.ours(m); err != nil {
		return false, err
	}
	if before := f.Map(); before != nil && m.Version <= before.Version {
		return false, nil
	}
	f.newest.Store(m)
	f.followKeys(m)
	f.mu.Lock()
	watchers := slices.Collect(maps.Values(f.watchers))
	f.mu.Unlock()
	for _, changed := range watchers {
		changed(m)
	}
	return true, nil
}

// ours refuses the map of another cluster.
func (f *Follower) ours(m *topology.Map) error {
	want := f.options.Cluster
	if before := f.Map(); want == "" && before != nil {
		want = before.Cluster
	}
	if want != "" && m.Cluster != want {
		return fmt.Errorf("%w %q, not to %q", errOtherCluster, m.Cluster, want)
	}
	return nil
}

var errOtherCluster = errors.New("it belongs to cluster")

// version of the newest map; 0: none yet.
func (f *Follower) version() uint64 {
	if m := f.Map(); m != nil {
		return m.Version
	}
	return 0
}

// conn returns the connection to an address, which is made once.
func (f *Follower) conn(addr string) (*grpc.ClientConn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, context.Canceled
	}
	if conn := f.conns[addr]; conn != nil {
		return conn, nil
	}
	options := append([]grpc.DialOption{
		f.options.Identity.DialOption(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMapBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryAfter, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: connectWithin,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silentAfter, Timeout: silenceWithin}),
	}, f.options.Dial...)
	conn, err := grpc.NewClient("passthrough:///"+addr, options...)
	if err != nil {
		return nil, err
	}
	f.conns[addr] = conn
	return conn, nil
}

// listen takes maps from one source until that fails or ctx ends. After every map it says whether it was news.
func (f *Follower) listen(ctx context.Context, addr string, took func(news bool)) error {
	conn, err := f.conn(addr)
	if err != nil {
		return err
	}
	stream, err := controllerv1.NewControllerClient(conn).Map(ctx, &controllerv1.MapRequest{Known: f.version()})
	for err == nil {
		var in *controllerv1.MapResponse
		if in, err = stream.Recv(); err != nil {
			break
		}
		var m *topology.Map
		if m, err = decode(in); err != nil {
			err = fmt.Errorf("its map is wrong: %w", err)
			break
		}
		var news bool
		if news, err = f.offer(m); err == nil {
			took(news)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	late := status.Code(err) == codes.DeadlineExceeded // gRPC's timer may fire before ctx ends
	if ctx.Err() == nil && (!late || f.failures[addr] == nil) {
		f.failures[addr] = err
	}
	return err
}
