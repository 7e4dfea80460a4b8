package gateway

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/netcraq/netcraq/internal/cli/clitest"
	"github.com/netcraq/netcraq/internal/cluster/topology"
	"github.com/netcraq/netcraq/internal/gateway/engine"
	"github.com/netcraq/netcraq/internal/gateway/local"
)

// free returns an address that nothing uses.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startEtcd runs an etcd until the test ends.
func startEtcd(t *testing.T) (url string) {
	t.Helper()
	m := &local.Member{Name: "m", Dir: t.TempDir(), Client: "http://" + free(t), Peer: "http://" + free(t)}
	m.Initial = "m=" + m.Peer
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m.Client
}

// etcdClient connects etcd's own client.
func etcdClient(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// started is a gateway that runs until stop.
type started struct {
	*lines
	ended chan error
	stop  func()
}

func start(t *testing.T, args ...string) *started {
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{new(lines), make(chan error, 1), cancel}
	go func() {
		c := newGatewayCommand()
		c.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
		c.SetErr(s.lines)
		s.ended <- c.ExecuteContext(ctx)
	}()
	return s
}

// says waits until the gateway's log has a text.
func (s *started) says(t *testing.T, text string) {
	t.Helper()
	select {
	case <-s.await(text):
	case err := <-s.ended:
		t.Fatalf("ended before it said %q: %v\n%s", text, err, s)
	}
}

// TestStartWithoutTheChain: a gateway whose controllers do not run serves from etcd, if a gateway has used that etcd
// before, and reaches the chain when they do.
func TestStartWithoutTheChain(t *testing.T) {
	const host = "127.2.6.31"
	etcd, data := startEtcd(t), t.TempDir()
	flags := []string{"--etcd-endpoints", etcd, "--controllers", host}
	m := &clitest.Managed{T: t, Controller: host + ":4413", Nodes: make(map[string]*exec.Cmd)}
	up := func() (end func()) {
		controller := m.Run("controller", "controller", "--listen", host, "--data-dir", data,
			"--shards", "1", "--replicas", "1", "--form-with", "1")
		m.StartNode("n1", host+":4411")
		return func() {
			clitest.Kill(m.Nodes["n1"])
			clitest.Kill(controller)
		}
	}

	if err := <-start(t, flags...).ended; !errors.Is(err, engine.ErrNoChain) || !strings.Contains(err.Error(), host) {
		t.Errorf("the first gateway of an etcd, without the chain: %v", err)
	}
	end := up()
	m.Await("the chain", (*topology.Map).Formed)
	first := start(t, flags...)
	first.says(t, "started gRPC proxy")
	first.stop()
	if err := <-first.ended; err != nil {
		t.Error(err)
	}
	end()

	g := start(t, flags...)
	g.says(t, "the chain does not answer")
	address := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(g.String())
	if address == nil {
		t.Fatalf("no address:\n%s", g)
	}
	c := etcdClient(t, address[1])
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	isV := func(when string) {
		t.Helper()
		if r, err := c.Get(t.Context(), "k"); err != nil || len(r.Kvs) != 1 || string(r.Kvs[0].Value) != "v" {
			t.Errorf("%s: %v, %v", when, r, err)
		}
	}
	isV("without the chain")
	up()
	g.says(t, "the chain answers")
	isV("with the chain")
}

// TestAnotherChainLater: a gateway that has served without its chain ends if the chain is not that of the other gateways.
func TestAnotherChainLater(t *testing.T) {
	const host = "127.2.6.32"
	etcd := startEtcd(t)
	if _, err := etcdClient(t, etcd).Put(t.Context(), engine.OwnPrefix+"chain", "2 cluster another"); err != nil {
		t.Fatal(err)
	}
	g := start(t, "--etcd-endpoints", etcd, "--controllers", host)
	g.says(t, "the chain does not answer")
	clitest.StartManaged(t, host, "--shards", "1", "--replicas", "1", "--form-with", "1").StartNode("n1", host+":4411")
	if err := <-g.ended; err == nil || !strings.Contains(err.Error(), "another chain") {
		t.Errorf("%v", err)
	}
}
