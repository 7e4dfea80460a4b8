package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/grpcserver"
	"github.com/netcraq/netcraq/internal/gateway/locks"
	"github.com/netcraq/netcraq/internal/gateway/objects"
	"github.com/netcraq/netcraq/internal/gateway/placement"
	"github.com/netcraq/netcraq/internal/gateway/serve"
)

// Options configure the server and the etcd that it forwards calls to.
type Options struct {
	Listen string // host:port
	// ListenFlag is the flag that names Listen, for errors; empty: --listen.
	ListenFlag string
	Clients    serve.TowardsClients
	Endpoints  []string
	Etcd       serve.TowardsEtcd
	Advertise  string        // URL that the member list shows; empty: etcd's own list is passed on
	Metrics    []string      // more URLs on which pages are served
	KeepAlive  KeepAlive     // towards etcd
	Follow     time.Duration // how often the endpoints are taken from etcd's member list; 0: never
	Cache      *Cache        // nil: nothing is cached
	// MaxRequestBytes is the largest request: etcd's --max-request-bytes. 0: [serve.DefaultMaxRequestBytes].
	MaxRequestBytes int
	MaxConnections  int  // of clients; 0: [serve.DefaultConnections]
	Profiles        bool // serve profiles of this process below /debug/pprof/
	Log             *slog.Logger
}

// Cache says where keys are cached.
type Cache struct {
	Chain     objects.Chain
	Nearby    objects.Nearby // nil: all reads of the chain use the network
	Nodes     engine.Nodes   // nil: the placement knows only what this gateway's clients do
	ChainName string         // the same for all gateways with this chain; empty: not known yet, see [Server.NameChain]
	Placement placement.Options
	Lease     time.Duration // of the gateway's session; 0: the default
}

// KeepAlive says how a silent connection is noticed.
type KeepAlive struct {
	Time, Timeout time.Duration // Time 0: not at all
	Idle          bool          // also without calls
}

// DefaultKeepAlive is for a member whose machine or network is gone without a reset: calls to it would wait until TCP gives
// up, a quarter of an hour later. etcd takes probes every 5 s.
var DefaultKeepAlive = KeepAlive{Time: 10 * time.Second, Timeout: 10 * time.Second}

func (k KeepAlive) client() keepalive.ClientParameters {
	return keepalive.ClientParameters{Time: k.Time, Timeout: k.Timeout, PermitWithoutStream: k.Idle}
}

// reconnect is how soon a member that is away is tried again.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// Server serves etcd's clients.
type Server struct {
	options  Options
	etcd     *tls.Config // towards etcd; nil: as the endpoints' URLs say
	conn     *upstream
	memory   *grpcserver.Memory // of clients' requests and answers
	calls    *grpcserver.Server
	clients  *serve.Server
	plain    *serve.Server // of the pages alone
	listener *serve.Listener
	more     []*serve.Listener
	cache    *engine.Engine  // nil: nothing is cached
	locks    *locks.Services // with a cache
	own      *serve.Own      // calls of the pages
	latency  *latency
	// asking bounds the pages that ask etcd at a time, checking those that check its health.
	asking, checking *semaphore.Weighted
}

// pagesAtOnce is the bound of both: any client may request pages, and each costs a connection or a read of etcd.
const pagesAtOnce = 8

// New listens and connects. [Server.Serve] serves.
func New(ctx context.Context, o Options) (*Server, error) {
	endpoints, err := parseEndpoints(o.Endpoints)
	if err != nil {
		return nil, err
	}
	etcd, err := o.Etcd.Config()
	if err != nil {
		return nil, err
	}
	conn, err := dial(endpoints, etcd, o.KeepAlive, readyWithin)
	if err != nil {
		return nil, fmt.Errorf("connections to etcd: %w", err)
	}
	if o.MaxRequestBytes == 0 {
		o.MaxRequestBytes = serve.DefaultMaxRequestBytes
	}
	s := &Server{
		options: o, etcd: etcd, conn: conn, memory: serve.RequestMemory(), latency: newLatency(),
		asking: semaphore.NewWeighted(pagesAtOnce), checking: semaphore.NewWeighted(pagesAtOnce),
	}
	answers, err := s.checkVersion(ctx)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := s.startCache(ctx, answers); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	handler, err := s.api(ctx)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if s.calls, err = s.serveCalls(handler); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.clients = serve.New(s.calls, handler, o.MaxConnections, o.Log)
	s.plain = serve.NewPages(s.pages(false), o.Log)
	if s.listener, err = serve.Listen(cmp.Or(o.ListenFlag, "--listen"), o.Listen, o.Clients); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	for _, address := range o.Metrics {
		l, err := serve.ListenPages(address, o.Clients)
		if err != nil {
			return nil, errors.Join(err, s.listener.Close(), conn.Close())
		}
		s.more = append(s.more, l)
	}
	return s, nil
}

// Addr is the address that is served.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// startCache brings the cache up, if there is one, and the way that the pages' calls take: through this server, as clients' do. It
// waits for an etcd that answers.
func (s *Server) startCache(ctx context.Context, answers bool) (err error) {
	s.own, err = serve.NewOwn()
	if c := s.options.Cache; err == nil && c != nil {
		s.cache, err = engine.Start(ctx, engine.Options{
			Etcd: s.conn.ClientConn, Chain: c.Chain, Nearby: c.Nearby, Nodes: c.Nodes, ChainName: c.ChainName,
			Placement: c.Placement, About: s.options.about(), Lease: c.Lease, Log: s.options.Log, Later: !answers,
		})
	}
	return err
}

// NameChain checks the name of a chain that could not be reached when the server was made. The chain must not be used if
// it returns an error.
func (s *Server) NameChain(name string) error {
	if s.cache == nil {
		return nil
	}
	return s.cache.NameChain(name)
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	if s.options.Follow > 0 {
		following, stop := context.WithCancel(ctx)
		defer stop()
		go s.conn.track(following, s.options.Follow, s.options.Log)
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2+len(s.more))
	go func() { failed <- s.own.Serve(s.calls) }()
	go func() { failed <- s.clients.Serve(serving, s.listener) }()
	for _, l := range s.more {
		go func() { failed <- s.plain.Serve(serving, l) }()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-s.restored(ctx):
	case err = <-s.otherChain():
	case <-s.again():
		err = ErrAgain
	}
	stop()
	s.end()
	return err
}

// ErrAgain is the error of a server whose cache has ended for a reason that is over: a new one caches.
var ErrAgain = errors.New("etcd's authentication was disabled again: start the gateway again, so that it caches")

// again is closed when the server is to begin anew.
func (s *Server) again() <-chan struct{} {
	if s.cache == nil {
		return nil
	}
	return s.cache.Again()
}

// otherChain receives an error when etcd turns out to be cached in another chain.
func (s *Server) otherChain() <-chan error {
	if s.cache == nil {
		return nil
	}
	return s.cache.Failed()
}

// restored receives an error when etcd has another history than before. The gateway ends then, and a new one begins anew.
func (s *Server) restored(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	if s.cache == nil {
		return ended
	}
	go func() {
		select {
		case <-ctx.Done():
		case <-s.cache.Gone():
			if why := s.cache.Why(); errors.Is(why, engine.ErrRestored) {
				ended <- fmt.Errorf("%w; start the gateway again: it begins anew", why)
			}
		}
	}()
	return ended
}

// end lets calls under way finish, shortly. Watches would never.
func (s *Server) end() {
	ctx, cancel := context.WithTimeout(context.Background(), serve.EndWithin)
	defer cancel()
	if s.locks != nil {
		defer s.locks.Ending(2 * serve.EndWithin)()
	}
	s.clients.Stop(ctx)
	if s.cache != nil {
		s.cache.Close()
	}
	s.plain.Stop(ctx)
	if err := errors.Join(s.own.Close(), s.conn.Close()); err != nil {
		s.options.Log.Debug("the gateway's end", "error", err)
	}
}
