// Package etcdtest runs etcd clusters in the process of a test.
package etcdtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/crypto/bcrypt"
)

// Cluster is etcd servers that are members of one cluster.
type Cluster struct {
	t       testing.TB
	dir     string
	Members []*Member
}

// Member is a server, which can be stopped and started again.
type Member struct {
	*embed.Etcd // nil: stopped
	Client      *clientv3.Client
	Config      func(*embed.Config) // before each start; nil: nothing
	Started     func(*embed.Etcd)   // after each start; nil: nothing
	TLS         *transport.TLSInfo  // of clients; nil: they have none
	Name        string
	client      url.URL
	peer        url.URL
	state       string
	cluster     *Cluster
	initial     string
}

// Start starts a cluster and waits until all members serve. configure is called for each of them.
func Start(t testing.TB, size int, configure func(i int, m *Member)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dir: t.TempDir()}
	for range size {
		c.add(embed.ClusterStateFlagNew)
	}
	for i, m := range c.Members {
		m.initial = c.initial()
		if configure != nil {
			configure(i, m)
		}
	}
	t.Cleanup(c.stop)
	for _, m := range c.Members {
		m.Begin()
	}
	for _, m := range c.Members {
		m.Await()
	}
	return c
}

func (c *Cluster) add(state string) *Member {
	m := &Member{
		Name: fmt.Sprintf("m%d", len(c.Members)), state: state, cluster: c,
		client: url.URL{Scheme: "http", Host: FreePort(c.t)}, peer: url.URL{Scheme: "http", Host: FreePort(c.t)},
	}
	c.Members = append(c.Members, m)
	return m
}

func (c *Cluster) initial() string {
	var all []string
	for _, m := range c.Members {
		all = append(all, m.Name+"="+m.peer.String())
	}
	return strings.Join(all, ",")
}

// Next makes a member that is not started. Its PeerURL has to be added to the cluster before.
func (c *Cluster) Next() *Member {
	m := c.add(embed.ClusterStateFlagExisting)
	m.initial = c.initial()
	return m
}

func (c *Cluster) stop() {
	for _, m := range c.Members {
		m.Stop()
	}
}

// Ports that are drawn. No system connects from them by itself, so a server that stops finds its port free again.
const (
	firstPort = 10_000
	lastPort  = 32_000
)

// FreePort returns an address on loopback that nobody uses at present.
func FreePort(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(lastPort-firstPort)))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
}

// PeerURL is where other members reach this one, and ClientURL where clients do.
func (m *Member) PeerURL() string   { return m.peer.String() }
func (m *Member) ClientURL() string { return m.client.String() }

// Dir is the data directory.
func (m *Member) Dir() string { return m.cluster.dir + "/" + m.Name }

// Begin starts a member, with the data that it has.
func (m *Member) Begin() {
	t := m.cluster.t
	t.Helper()
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.LogOutputs = m.Name, m.Dir(), "error", []string{m.Dir() + ".log"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.client}, []url.URL{m.client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{m.peer}, []url.URL{m.peer}
	c.InitialCluster, c.ClusterState = m.initial, m.state
	c.UnsafeNoFsync = true        // the data goes with the test
	c.StrictReconfigCheck = false // it refuses changes in the first seconds
	c.BcryptCost = uint(bcrypt.MinCost)
	if m.TLS != nil {
		m.client.Scheme, c.ClientTLSInfo = "https", *m.TLS
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.client}, []url.URL{m.client}
	}
	if m.Config != nil {
		m.Config(c)
	}
	var err error
	if m.Etcd, err = embed.StartEtcd(c); err != nil {
		t.Fatal(err)
	}
	if m.Started != nil {
		m.Started(m.Etcd)
	}
}

// Await returns when the member serves, and connects its client.
func (m *Member) Await() {
	t := m.cluster.t
	t.Helper()
	select {
	case <-m.Server.ReadyNotify():
	case err := <-m.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatalf("%s does not serve within a minute", m.Name)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.ClientURL()}, TLS: m.ClientTLS()})
	if err != nil {
		t.Fatal(err)
	}
	m.Client = c
}

// ClientTLS is what clients need to connect, or nil.
func (m *Member) ClientTLS() *tls.Config {
	if m.TLS == nil {
		return nil
	}
	c, err := m.TLS.ClientConfig()
	if err != nil {
		m.cluster.t.Fatal(err)
	}
	return c
}

// Stop stops a member. Its data stays.
func (m *Member) Stop() {
	if m.Client != nil {
		_ = m.Client.Close() // its calls have ended
		m.Client = nil
	}
	if m.Etcd != nil {
		m.Etcd.Server.HardStop()
		m.Etcd.Close()
		m.Etcd = nil
	}
}
