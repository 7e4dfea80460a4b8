package store

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Embedded is an etcd member in this process. It speaks with its peers only, unless Client names an address.
type Embedded struct {
	Name   string            // of this member
	Dir    string            // where it keeps its data
	Peers  map[string]string // address (host:port) for peers of every member, by name; this one is among them
	Client string            // address for etcdctl and others; empty: none
	Joins  bool              // it was added, or replaces a lost one: it copies the data of the others

	Cert, Key, Authority string // files for mutual TLS with peers and others; empty: none
	Revoked              string // file of revoked certificates, in DER; empty: none
}

const (
	heartbeatMs = 50
	electionMs  = 500
	// keepRevisions of the past stay readable; followers that fall behind further load the whole state again.
	keepRevisions = "1000"
)

type server struct {
	etcd    *embed.Etcd
	lock    *os.File // held on the directory
	hush    *atomic.Bool
	failure *failure
}

// startServer starts a member. It becomes ready when most members are there.
func startServer(e *Embedded, cluster string, log *slog.Logger) (*server, error) {
	lock, err := lockDir(e.Dir)
	if err != nil {
		return nil, err
	}
	s := &server{lock: lock, hush: new(atomic.Bool), failure: newFailure(e.Dir)}
	end := []zap.Option{zap.WithFatalHook(s.failure), zap.WithPanicHook(s.failure)}
	config, err := e.config(cluster, newZap(log, s.hush).WithOptions(end...))
	if err == nil {
		err = s.start(config)
		switch {
		case err == nil:
			return s, nil
		case s.failure.happened(): // the directory stays this process's, whose goroutines may still use it
			return nil, err
		}
		err = e.explain(err)
	}
	return nil, errors.Join(err, lock.Close())
}

// start starts etcd, on a goroutine that never ends if etcd fails.
func (s *server) start(config *embed.Config) (err error) {
	started := make(chan error, 1)
	go func() {
		etcd, err := embed.StartEtcd(config)
		s.etcd = etcd
		started <- err
	}()
	select {
	case err := <-started:
		return err
	case <-s.failure.failed:
		return s.failure.err
	}
}

func (e *Embedded) config(cluster string, log *zap.Logger) (*embed.Config, error) {
	self, ok := e.Peers[e.Name]
	if !ok {
		return nil, fmt.Errorf("this controller, %q, is not among the controllers of the cluster", e.Name)
	}
	c := embed.NewConfig()
	c.Name, c.Dir = e.Name, filepath.Join(e.Dir, "etcd")
	c.TickMs, c.ElectionMs = heartbeatMs, electionMs
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModeRevision, keepRevisions
	c.InitialClusterToken = "netcraq-" + cluster
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	c.EnableGRPCGateway = false
	if e.Cert != "" {
		tls, err := e.tls()
		if err != nil {
			return nil, err
		}
		c.PeerTLSInfo, c.ClientTLSInfo = tls, tls
	}
	c.ListenPeerUrls, c.AdvertisePeerUrls = e.url(self), e.url(self)
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, e.url(self) // there is no listener, so the advertised address does not matter
	if e.Client != "" {
		c.ListenClientUrls, c.AdvertiseClientUrls = e.url(e.Client), e.url(e.Client)
	}
	var members []string
	for name, peer := range e.Peers {
		members = append(members, name+"="+e.url(peer)[0].String())
	}
	if e.Joins {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	slices.Sort(members)
	c.InitialCluster = strings.Join(members, ",")
	return c, nil
}

// tls accepts peers with a certificate of the authority and the common name of this one, that is controllers. (etcd itself
// would accept any role.) It does not check the peer's address, because a host may have several.
func (e *Embedded) tls() (transport.TLSInfo, error) {
	pair, err := tls.LoadX509KeyPair(e.Cert, e.Key)
	if err != nil {
		return transport.TLSInfo{}, fmt.Errorf("the certificate for the embedded etcd: %w", err)
	}
	return transport.TLSInfo{
		CertFile: e.Cert, KeyFile: e.Key, TrustedCAFile: e.Authority, ClientCertAuth: true,
		AllowedCNs: []string{pair.Leaf.Subject.CommonName}, SkipClientSANVerify: true, CRLFile: e.Revoked,
	}, nil
}

func (e *Embedded) url(addr string) []url.URL {
	if e.Cert != "" {
		return []url.URL{{Scheme: "https", Host: addr}}
	}
	return []url.URL{{Scheme: "http", Host: addr}}
}

// explain adds advice to the error of an etcd that does not start.
func (e *Embedded) explain(err error) error {
	var refused *net.OpError
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("a port of the embedded etcd is taken, probably by another controller: %w", err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("the embedded etcd: %s is not an address of this machine: %w", e.Peers[e.Name], err)
	case strings.Contains(err.Error(), "has already been bootstrapped"):
		return fmt.Errorf("the other controllers know %s, but %s has no data: if it was lost, run `netcraq controllers replace %s`, "+
			"and start this one with --replacement", e.Name, e.Dir, e.Name)
	case strings.Contains(err.Error(), "error validating peerURLs") || strings.Contains(err.Error(), "member count is unequal"):
		return fmt.Errorf("the other controllers do not know %s at %s, or other controllers than --initial-cluster names: run "+
			"`netcraq controllers add` first, and give the list that it prints: %w", e.Name, e.Peers[e.Name], err)
	case errors.As(err, &refused):
		return fmt.Errorf("the embedded etcd: %w", err)
	}
	return fmt.Errorf("the embedded etcd in %s does not start: %w", e.Dir, err)
}

// lockDir makes a directory this process's own.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir %s cannot be made: name a directory in which this user may write: %w", dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another controller: end that one, or choose another --data-dir", dir), lock.Close())
	}
	return lock, nil
}

// client speaks with the member without a network.
func (s *server) client() *clientv3.Client { return v3client.New(s.etcd.Server) }

func (s *server) close() {
	s.hush.Store(true)
	closed := make(chan struct{})
	go func() { s.etcd.Close(); close(closed) }()
	select {
	case <-closed:
		s.lock.Close()
	case <-s.failure.failed: // the directory stays this process's
	}
}
